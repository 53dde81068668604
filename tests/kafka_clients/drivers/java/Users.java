// Users, their rights and quotas, at a broker that demands authentication: root may do everything, ann what root allows here.
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

class Users {
    static Properties login(String bootstrap, String mechanism, String user, String password, String... more) {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        Properties found = Driver.settings(bootstrap, (Object[]) more);
        found.putIfAbsent("security.protocol", "SASL_PLAINTEXT");
        found.put("sasl.mechanism", mechanism);
        found.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\"" + user
            + "\" password=\"" + password + "\";");
        found.put("max.block.ms", "30000");
        found.put("default.api.timeout.ms", "30000");
        found.put("auto.offset.reset", "earliest");
        return found;
    }

    static AclBinding rule(ResourceType kind, String name, AclOperation operation) {
        return new AclBinding(new ResourcePattern(kind, name, PatternType.LITERAL),
            new AccessControlEntry("User:ann", "*", operation, AclPermissionType.ALLOW));
    }

    static List<String> send(Properties settings, String topic) {
        return Cases.failure(() -> {
            try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                return producer.send(Driver.record(topic, 0)).get();
            }
        });
    }

    // The failure to read a record as a member of a group; null if one is read.
    static List<String> read(Properties settings, String topic, String group) {
        Properties more = new Properties();
        more.putAll(settings);
        more.put("group.id", group);
        return Cases.failure(() -> {
            try (var consumer = new KafkaConsumer<>(more, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic));
                for (int tries = 0; tries < 30; tries++) {
                    if (!consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                        consumer.commitSync();
                        return null;
                    }
                }
                throw new IllegalStateException("nothing is read");
            }
        });
    }

    static Object users(String plain, String tls, String authority, String root, String ann) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        Properties annBySha256 = login(plain, "SCRAM-SHA-256", "ann", ann);
        String[] encrypted = {"security.protocol", "SASL_SSL", "ssl.truststore.type", "PEM", "ssl.truststore.location", authority};
        found.put("nothing allowed", send(annBySha256, "t"));
        try (Admin admin = Admin.create(login(plain, "SCRAM-SHA-512", "root", root))) {
            admin.createTopics(List.of(new NewTopic("t", 1, (short) 1), new NewTopic("other", 1, (short) 1))).all().get();
            var rules = List.of(rule(ResourceType.TOPIC, "t", AclOperation.WRITE), rule(ResourceType.TOPIC, "t", AclOperation.READ),
                rule(ResourceType.GROUP, "g", AclOperation.READ));
            admin.createAcls(rules).all().get();
            found.put("rules", admin.describeAcls(AclBindingFilter.ANY).values().get().size());
            found.put("allowed to write", send(annBySha256, "t"));
            found.put("allowed to read", read(annBySha256, "t", "g"));
            found.put("another group, over TLS", read(login(tls, "PLAIN", "ann", ann, encrypted), "t", "g-of-another"));
            admin.createAcls(List.of(rule(ResourceType.GROUP, "h", AclOperation.READ))).all().get();
            found.put("PLAIN over TLS", read(login(tls, "PLAIN", "ann", ann, encrypted), "t", "h"));
            found.put("PLAIN without TLS", send(login(plain, "PLAIN", "ann", ann), "t"));
            found.put("a wrong password", send(login(plain, "SCRAM-SHA-512", "ann", "wrong"), "t"));
            found.put("another topic", send(annBySha256, "other"));
            found.put("read another topic", read(annBySha256, "other", "g"));
            found.put("without a user", send(Driver.settings(plain), "t"));
            try (Admin hers = Admin.create(annBySha256)) {
                found.put("listed", new TreeSet<>(hers.listTopics().names().get()));
                found.put("create", Cases.failure(() -> hers.createTopics(List.of(new NewTopic("hers", 1, (short) 1))).all().get()));
                found.put("delete", Cases.failure(() -> hers.deleteTopics(List.of("t")).all().get()));
                found.put("see rules", Cases.failure(() -> hers.describeAcls(AclBindingFilter.ANY).values().get()));
            }
            var described = admin.describeUserScramCredentials().all().get();
            found.put("users", new TreeSet<>(described.keySet()));
            found.put("mechanisms", described.get("ann").credentialInfos().stream().map(each -> each.mechanism().mechanismName()).sorted().toList());
            var change = new UserScramCredentialUpsertion("ann", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "new password");
            found.put("a new password", Cases.failure(() -> admin.alterUserScramCredentials(List.of(change)).all().get()));
            var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "ann"));
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all().get();
            found.put("quota", admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().get(entity));
            found.put("removed rules", admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get().size());
            found.put("no rules", admin.describeAcls(AclBindingFilter.ANY).values().get().size());
        }
        return found;
    }
}
