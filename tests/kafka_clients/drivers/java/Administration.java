// Apache Kafka's Admin: one topic and one group from their creation to their end; java_clients.py says what each step has to find.
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

class Administration {
    static String config(Admin admin, ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    static void alter(Admin admin, ConfigResource resource, String name, String value, AlterConfigOp.OpType kind) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), kind);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    static Object administer(String bootstrap, String topic) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        String group = topic + "-group";
        var partition = new TopicPartition(topic, 0);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(Driver.settings(bootstrap))) {
            var cluster = admin.describeCluster();
            found.put("cluster", List.of(!cluster.clusterId().get().isEmpty(), cluster.nodes().get().size(),
                cluster.controller().get() != null));
            var topics = List.of(new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "3600000")));
            admin.createTopics(topics, new CreateTopicsOptions().validateOnly(true)).all().get();
            found.put("validated only", admin.listTopics().names().get().contains(topic));
            admin.createTopics(topics).all().get();
            found.put("created again", Cases.failure(() -> admin.createTopics(topics).all().get()));
            found.put("listed", admin.listTopics().names().get().contains(topic));
            found.put("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            found.put("more partitions", described.partitions().size());
            found.put("fewer", Cases.failure(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get()));
            found.put("by id", Cases.failure(() ->
                admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get()));
            found.put("setting", config(admin, resource, "retention.ms"));
            alter(admin, resource, "retention.ms", "7200000", AlterConfigOp.OpType.SET);
            alter(admin, resource, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
            found.put("altered", List.of(config(admin, resource, "retention.ms"), config(admin, resource, "cleanup.policy")));
            alter(admin, resource, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
            alter(admin, resource, "retention.ms", null, AlterConfigOp.OpType.DELETE);
            found.put("reset", List.of(config(admin, resource, "retention.ms"), config(admin, resource, "cleanup.policy")));
            found.put("unknown setting", Cases.failure(() -> {
                alter(admin, resource, "retention.msec", "1", AlterConfigOp.OpType.SET);
                return null;
            }));
            try (var producer = Driver.producer(bootstrap)) {
                for (int n = 0; n < 10; n++) {
                    producer.send(Driver.record(topic, n));
                }
            }
            try (var consumer = Driver.consumer(bootstrap, "group.id", group, "auto.offset.reset", "earliest")) {
                consumer.subscribe(List.of(topic));
                int seen = 0;
                List<Long> offsets = new ArrayList<>();
                while (seen < 10) {
                    for (var each : consumer.poll(Duration.ofSeconds(1))) {
                        offsets.add(each.offset());
                        seen++;
                    }
                }
                consumer.commitSync();
                var state = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                found.put("group", List.of(state.groupState().toString(), state.type().toString(), state.partitionAssignor(),
                    state.members().size(), state.members().iterator().next().assignment().topicPartitions().size()));
                found.put("groups", admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
                found.put("all groups", admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
                found.put("delete with members", Cases.failure(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
                long end = consumer.position(partition);
                var low = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offsets.get(4))))
                    .lowWatermarks().get(partition).get().lowWatermark();
                found.put("deleted records", List.of(low == offsets.get(4), consumer.beginningOffsets(List.of(partition)).get(partition) == low));
                consumer.seekToBeginning(List.of(partition));
                found.put("first of the rest", Cases.first(consumer) == offsets.get(4));
                found.put("committed at the end", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset() == end);
            }
            var back = Map.of(partition, new OffsetAndMetadata(3, Optional.empty(), "set by hand"));
            admin.alterConsumerGroupOffsets(group, back).all().get();
            var after = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition);
            found.put("altered position", List.of(after.offset(), after.metadata()));
            admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            found.put("deleted position", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition) == null);
            admin.deleteConsumerGroups(List.of(group)).all().get();
            found.put("deleted group", admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString());
            found.put("deleted group again", Cases.failure(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
            int node = described.partitions().get(0).leader().id();
            Map<String, Integer> folders = new HashMap<>();
            admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).forEach((name, folder) ->
                folders.put(name, (int) folder.replicaInfos().keySet().stream().filter(each -> each.topic().equals(topic)).count()));
            found.put("log directories", folders.values());
            found.put("election", admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition)
                .map(each -> each.getClass().getSimpleName()).orElse(""));
            found.put("reassignments", admin.listPartitionReassignments().reassignments().get().size());
            found.put("broker setting", config(admin, new ConfigResource(ConfigResource.Type.BROKER, "" + node), "num.partitions"));
            admin.deleteTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
            found.put("deleted", admin.listTopics().names().get().contains(topic));
            found.put("deleted again", Cases.failure(() -> admin.deleteTopics(List.of(topic)).all().get()));
        }
        return found;
    }
}
