// Cases that only Apache Kafka's own clients are asked for: each answers an object that java_clients.py holds against the broker.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

class Cases {
    static final HexFormat HEX = HexFormat.of();

    static byte[] bytes(Object hex) {
        return hex == null ? null : HEX.parseHex((String) hex);
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }

    static ProducerRecord<byte[], byte[]> record(String topic, List<Object> given) {
        List<Header> headers = new ArrayList<>();
        for (Object each : (List<?>) given.get(4)) {
            headers.add(new RecordHeader((String) ((List<?>) each).get(0), bytes(((List<?>) each).get(1))));
        }
        long time = ((Number) given.get(1)).longValue();
        return new ProducerRecord<>(topic, 0, time, bytes(given.get(2)), bytes(given.get(3)), headers);
    }

    // Sends the records of the standard input, [codec, time, key, value, headers] each and by codec, to the first topic; reads all topics.
    static Object records(String bootstrap, List<String> topics) throws Exception {
        Map<String, List<List<Object>>> given = new LinkedHashMap<>();
        for (var each : (List<List<Object>>) Driver.JSON.readValue(System.in, List.class)) {
            given.computeIfAbsent((String) each.get(0), codec -> new ArrayList<>()).add(each);
        }
        Map<String, Object> rates = new LinkedHashMap<>();
        List<Object> acknowledged = new ArrayList<>();
        for (String codec : given.keySet()) {
            try (var producer = Driver.producer(bootstrap, "compression.type", codec, "linger.ms", 50)) {
                List<Future<RecordMetadata>> places = new ArrayList<>();
                for (List<Object> each : given.get(codec)) {
                    places.add(producer.send(record(topics.get(0), each)));
                }
                for (Future<RecordMetadata> each : places) {
                    acknowledged.add(List.of(each.get().offset(), each.get().timestamp()));
                }
                producer.metrics().forEach((name, metric) -> {
                    if (name.name().equals("compression-rate-avg") && name.group().equals("producer-metrics")) {
                        rates.put(codec, metric.metricValue());
                    }
                });
            }
        }
        Map<String, Object> read = new LinkedHashMap<>();
        for (String topic : topics) {
            read.put(topic, read(bootstrap, topic, "isolation.level", "read_committed"));
        }
        // An answer has one batch at least, however large it is.
        boolean same = read.get(topics.get(0)).equals(read(bootstrap, topics.get(0),
            "fetch.max.bytes", 1000, "max.partition.fetch.bytes", 500, "max.poll.records", 7, "fetch.min.bytes", 100));
        for (String acks : List.of("0", "1")) {
            try (var producer = Driver.producer(bootstrap, "acks", acks, "enable.idempotence", false)) {
                for (int n = 0; n < 100; n++) {
                    producer.send(Driver.record(topics.get(0) + "-acks-" + acks, n));
                }
            }
        }
        return Map.of("acknowledged", acknowledged, "rates", rates, "read", read, "the same by small fetches", same);
    }

    // All records of partition 0, up to the end that there is now.
    static List<Object> read(String bootstrap, String topic, Object... more) {
        List<Object> found = new ArrayList<>();
        var partition = new TopicPartition(topic, 0);
        var settings = Driver.settings(bootstrap, more);
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
                    List<Object> headers = new ArrayList<>();
                    each.headers().forEach(header -> headers.add(Arrays.asList(header.key(), hex(header.value()))));
                    found.add(Arrays.asList(each.offset(), each.timestamp(), hex(each.key()), hex(each.value()), headers));
                }
            }
        }
        return found;
    }

    // Goes to places of partition 0 in each way that a consumer has.
    static Object places(String bootstrap, String topic, long offset, String[] times) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        var partition = new TopicPartition(topic, 0);
        var one = List.of(partition);
        try (var consumer = Driver.consumer(bootstrap, "auto.offset.reset", "none", "group.id", topic, "enable.auto.commit", false)) {
            consumer.assign(one);
            found.put("nothing committed", failure(() -> consumer.poll(Duration.ofSeconds(30))));
            consumer.seekToBeginning(one);
            found.put("begin", List.of(consumer.position(partition), first(consumer)));
            found.put("beginning offset", consumer.beginningOffsets(one).get(partition));
            consumer.seekToEnd(one);
            found.put("end", consumer.position(partition));
            found.put("end offset", consumer.endOffsets(one).get(partition));
            consumer.poll(Duration.ofMillis(200));
            found.put("lag at the end", consumer.currentLag(partition).orElse(-1));
            consumer.seek(partition, offset);
            found.put("sought", first(consumer));
            consumer.seek(partition, new OffsetAndMetadata(offset + 1));
            found.put("behind it", first(consumer));
            Map<String, Object> byTime = new LinkedHashMap<>();
            for (String each : times) {
                var answer = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(each))).get(partition);
                byTime.put(each, answer == null ? null : List.of(answer.offset(), answer.timestamp()));
            }
            found.put("times", byTime);
            consumer.seek(partition, (long) found.get("end") + 1000);
            found.put("past the end", failure(() -> consumer.poll(Duration.ofSeconds(30))));
            consumer.seek(partition, offset);
            consumer.pause(one);
            found.put("paused", consumer.poll(Duration.ofMillis(300)).count());
            consumer.resume(one);
            found.put("resumed", first(consumer));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset, "a note")));
            var committed = consumer.committed(Set.of(partition)).get(partition);
            found.put("committed", List.of(committed.offset(), committed.metadata()));
            found.put("partitions", consumer.partitionsFor(topic).size());
            found.put("listed", consumer.listTopics().containsKey(topic));
        }
        try (var consumer = Driver.consumer(bootstrap, "group.id", topic)) {
            consumer.assign(one);
            found.put("from the committed one", first(consumer));
        }
        try (var consumer = Driver.consumer(bootstrap, "auto.offset.reset", "by_duration:P18250D")) {
            consumer.assign(one);
            found.put("fifty years ago", first(consumer));
        }
        try (var consumer = Driver.consumer(bootstrap, "auto.offset.reset", "earliest", "group.id", topic + "-pattern")) {
            consumer.subscribe(Pattern.compile(Pattern.quote(topic.substring(0, topic.length() - 1)) + "."));
            found.put("by a pattern", first(consumer));
        }
        try (Admin admin = Admin.create(Driver.settings(bootstrap))) {
            Map<String, Object> listed = new LinkedHashMap<>();
            for (var each : Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
                    "max time", OffsetSpec.maxTimestamp()).entrySet()) {
                listed.put(each.getKey(), admin.listOffsets(Map.of(partition, each.getValue())).partitionResult(partition).get().offset());
            }
            found.put("listed offsets", listed);
        }
        return found;
    }

    // As Driver.first, but it gives up, as the consumer may have no place.
    static long first(KafkaConsumer<byte[], byte[]> consumer) {
        for (int tries = 0; tries < 30; tries++) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
                return each.offset();
            }
        }
        return -1;
    }

    // Sends the records 0, 1, 2 ... until a line comes; tells how many are acknowledged and have failed.
    static Object once(String bootstrap, String topic, List<String> more) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        AtomicInteger acknowledged = new AtomicInteger();
        List<Integer> failed = Collections.synchronizedList(new ArrayList<>());
        int sent = 0;
        // Small batches, so that there are some of them in flight at any time.
        Properties settings = Driver.settings(bootstrap, "linger.ms", 1, "batch.size", 1000, "buffer.memory", 1 << 20);
        more.forEach(each -> settings.put(each.split("=")[0], each.split("=")[1]));
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (!input.ready()) {
                int number = sent++;
                producer.send(Driver.record(topic, number), (place, error) -> {
                    if (error != null) {
                        failed.add(number);
                    }
                    int count = error == null ? acknowledged.incrementAndGet() : acknowledged.get();
                    if (error != null || count % 100 == 0) {
                        System.out.println(count + " " + failed.size());
                    }
                });
                if (sent % 20 == 0) {
                    TimeUnit.MILLISECONDS.sleep(5); // a rate of some thousands
                }
            }
        }
        return Map.of("sent", sent, "acknowledged", acknowledged.get(), "failed", failed);
    }

    // Removes a static member from a group, as an administrator.
    static Object remove(String bootstrap, String group, String instance) throws Exception {
        try (Admin admin = Admin.create(Driver.settings(bootstrap))) {
            var options = new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove(instance)));
            admin.removeMembersFromConsumerGroup(group, options).all().get();
            return admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().stream()
                .map(each -> each.groupInstanceId().orElse("")).sorted().toList();
        }
    }

    // Two members of one name: the first is refused from then on. A member that is too slow loses its partitions, and comes back.
    static Object fenced(String bootstrap, String topic) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        Object[] settings = {"group.id", topic, "group.instance.id", "the-same", "auto.offset.reset", "earliest",
            "heartbeat.interval.ms", 300};
        try (var first = Driver.consumer(bootstrap, settings); var second = Driver.consumer(bootstrap, settings)) {
            first.subscribe(List.of(topic));
            found.put("first", first(first) >= 0);
            second.subscribe(List.of(topic));
            found.put("second", first(second) >= 0);
            found.put("first again", failure(() -> {
                for (int tries = 0; tries < 30; tries++) {
                    first.poll(Duration.ofSeconds(1));
                    first.commitSync();
                }
                return null;
            }));
            found.put("second again", failure(() -> {
                second.commitSync();
                return null;
            }));
        }
        try (var slow = Driver.consumer(bootstrap, "group.id", topic + "-slow", "auto.offset.reset", "earliest",
                "max.poll.interval.ms", 1500, "max.poll.records", 1, "heartbeat.interval.ms", 300)) {
            slow.subscribe(List.of(topic));
            long seen = first(slow);
            TimeUnit.MILLISECONDS.sleep(4000); // longer than the interval: it leaves the group
            found.put("commit of the slow", failure(() -> {
                slow.commitSync();
                return null;
            }));
            found.put("the slow again", first(slow) == seen);
            slow.commitSync();
        }
        return found;
    }

    interface Work {
        Object run() throws Exception;
    }

    // The class and the text of an exception; null if there is none.
    static List<String> failure(Work work) {
        try {
            work.run();
            return null;
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return List.of(cause.getClass().getSimpleName(), String.valueOf(cause.getMessage()));
        }
    }

    // The answers to what is not served; the topic exists, with one partition.
    static Object refusals(String bootstrap, String topic) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        try (var producer = Driver.producer(bootstrap, "transactional.id", "a-transaction")) {
            found.put("transactions", failure(() -> {
                producer.initTransactions();
                return null;
            }));
        }
        try (var consumer = Driver.consumer(bootstrap, "group.id", "new-protocol", "group.protocol", "consumer")) {
            consumer.subscribe(List.of(topic));
            found.put("group.protocol=consumer", failure(() -> {
                for (int tries = 0; tries < 10; tries++) {
                    consumer.poll(Duration.ofSeconds(1));
                }
                return null;
            }));
        }
        var share = new KafkaShareConsumer<>(
            Driver.settings(bootstrap, "group.id", "shared"), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            share.subscribe(List.of(topic));
            found.put("share group", failure(() -> {
                for (int tries = 0; tries < 10; tries++) {
                    share.poll(Duration.ofSeconds(1));
                }
                return null;
            }));
        } finally {
            share.close(Duration.ofSeconds(1));
        }
        try (var producer = Driver.producer(bootstrap, "max.request.size", 4 << 20)) {
            found.put("too large", failure(() -> producer.send(new ProducerRecord<>(topic, new byte[3 << 20])).get()));
            found.put("the next one", failure(() -> producer.send(new ProducerRecord<>(topic, new byte[1])).get()));
        }
        try (Admin admin = Admin.create(Driver.settings(bootstrap))) {
            found.put("list transactions", failure(() -> admin.listTransactions().all().get()));
            found.put("describe producers", failure(() -> admin.describeProducers(List.of(new TopicPartition(topic, 0))).all().get()));
            found.put("fence producers", failure(() -> admin.fenceProducers(List.of("a-transaction")).all().get()));
            found.put("delegation token", failure(() -> admin.createDelegationToken().delegationToken().get()));
            found.put("quorum", failure(() -> admin.describeMetadataQuorum().quorumInfo().get()));
        }
        return found;
    }
}
