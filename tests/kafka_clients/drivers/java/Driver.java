// Apache Kafka's own clients, old ones too: see digest.py for the commands; the further ones are in Cases.java.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();

    static Properties settings(String bootstrap, Object... more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        for (int at = 0; at < more.length; at += 2) {
            found.put(more[at], more[at + 1].toString());
        }
        return found;
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, Object... more) {
        return new KafkaProducer<>(settings(bootstrap, more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, Object... more) {
        return new KafkaConsumer<>(settings(bootstrap, more), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int n) {
        String value = n + "-" + "x".repeat(n * 37 % 200);
        return new ProducerRecord<>(topic, 0, ("k" + n % 1000).getBytes(), value.getBytes());
    }

    static Object produce(String bootstrap, String topic, int count, String[] codecs, boolean once) {
        AtomicInteger errors = new AtomicInteger();
        for (int at = 0; at < codecs.length; at++) {
            try (var producer = producer(bootstrap, "compression.type", codecs[at], "enable.idempotence", once)) {
                int end = (int) ((long) count * (at + 1) / codecs.length);
                for (int n = (int) ((long) count * at / codecs.length); n < end; n++) {
                    producer.send(record(topic, n), (place, error) -> {
                        if (error != null) {
                            errors.incrementAndGet();
                        }
                    });
                }
            }
        }
        return Map.of("errors", errors.get(), "first", List.of());
    }

    static Object consume(String bootstrap, String topic, int count) throws Exception {
        MessageDigest sum = MessageDigest.getInstance("SHA-256");
        int seen = 0;
        try (var consumer = consumer(bootstrap)) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (seen < count) {
                for (ConsumerRecord<byte[], byte[]> each : poll(consumer)) {
                    if (seen < count) {
                        sum.update((each.offset() + "\t" + each.timestamp() + "\t").getBytes());
                        sum.update(each.key());
                        sum.update((byte) '\t');
                        sum.update(each.value());
                        sum.update((byte) '\n');
                        seen++;
                    }
                }
            }
        }
        return Map.of("count", seen, "sha256", HexFormat.of().formatHex(sum.digest()));
    }

    // What there is within a second; the releases before 2.0 take a number.
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            return consumer.poll(Duration.ofSeconds(1));
        } catch (NoSuchMethodError none) {
            try {
                var old = KafkaConsumer.class.getMethod("poll", long.class);
                return (ConsumerRecords<byte[], byte[]>) old.invoke(consumer, 1000L);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    // The offset of the first record from where a consumer is.
    static long first(KafkaConsumer<byte[], byte[]> consumer) {
        while (true) {
            for (ConsumerRecord<byte[], byte[]> each : poll(consumer)) {
                return each.offset();
            }
        }
    }

    static Object look(String bootstrap, String topic, long offset, long time) {
        var partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(bootstrap)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            var found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
            return Map.of("sought", first(consumer), "found", found.offset());
        }
    }

    // Reads until it is killed: a line for each record; those of its partitions that come and go are lines of the error output.
    static void member(String bootstrap, String topic, String group, List<String> more) {
        Properties settings = settings(bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "session.timeout.ms", 2000, "heartbeat.interval.ms", 300, "auto.commit.interval.ms", 200);
        for (String each : more) {
            settings.put(each.split("=")[0], each.split("=")[1]);
        }
        var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            void tell(String change, Collection<TopicPartition> partitions) {
                partitions.forEach(each -> System.err.println(change + " " + each.partition()));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                tell("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                tell("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                tell("lost", partitions);
            }
        });
        while (true) {
            for (ConsumerRecord<byte[], byte[]> each : poll(consumer)) {
                System.out.println(new String(each.value(), StandardCharsets.US_ASCII).split("-")[0]);
            }
            System.out.flush();
        }
    }

    public static void main(String[] words) throws Exception {
        String bootstrap = words[1];
        String topic = words[2];
        List<String> more = List.of(words).subList(3, words.length);
        Object answer = switch (words[0]) {
            case "produce" -> produce(bootstrap, topic, Integer.parseInt(words[3]), words[4].split(","), false);
            case "idempotent" -> produce(bootstrap, topic, Integer.parseInt(words[3]), words[4].split(","), true);
            case "consume" -> consume(bootstrap, topic, Integer.parseInt(words[3]));
            case "look" -> look(bootstrap, topic, Long.parseLong(words[3]), Long.parseLong(words[4]));
            case "member" -> {
                member(bootstrap, topic, words[3], more.subList(1, more.size()));
                yield null;
            }
            case "records" -> Cases.records(bootstrap, List.of(words).subList(2, words.length));
            case "places" -> Cases.places(bootstrap, topic, Long.parseLong(words[3]), words[4].split(","));
            case "once" -> Cases.once(bootstrap, topic, more);
            case "remove" -> Cases.remove(bootstrap, topic, words[3]);
            case "administer" -> Administration.administer(bootstrap, topic);
            case "fenced" -> Cases.fenced(bootstrap, topic);
            case "users" -> Users.users(bootstrap, topic, words[3], words[4], words[5]);
            case "refusals" -> Cases.refusals(bootstrap, topic);
            default -> throw new IllegalArgumentException(words[0]);
        };
        System.out.println(JSON.writeValueAsString(answer));
        System.exit(0);
    }
}
