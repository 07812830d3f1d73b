// What ordinary programs seldom meet: fetch sessions over idle partitions, ordered admin requests, expired share locks.
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class EdgeCases {
    static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            System.out.println("idle partitions: " + idlePartitions(admin));
            System.out.println("records left after DeleteRecords: " + orderedAdmin(admin));
            System.out.println("expired lock: " + expiredLock(admin));
        }
    }

    // The session's first fetch names 200 partitions; later ones name none, and what comes must still be told.
    static String idlePartitions(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("idle", 200, (short) 1))).all().get();
        List<String> found = new ArrayList<>();
        try (Consumer<String, String> consumer = new KafkaConsumer<>(settings(), text(), text()); Producer<String, String> producer = producer()) {
            List<TopicPartition> all = new ArrayList<>();
            for (int number = 0; number < 200; number++) all.add(new TopicPartition("idle", number));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            consumer.poll(Duration.ofMillis(200));
            for (int partition : new int[] {137, 3, 137, 199}) {
                producer.send(new ProducerRecord<>("idle", partition, null, "m" + partition)).get();
                long deadline = System.nanoTime() + 30_000_000_000L;
                int before = found.size();
                while (found.size() == before && System.nanoTime() < deadline)
                    for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(500))) found.add(one.partition() + "@" + one.offset());
            }
        }
        return found.toString();
    }

    static long orderedAdmin(Admin admin) throws Exception {
        TopicPartition at = new TopicPartition("ordered", 0);
        admin.createTopics(List.of(new NewTopic("ordered", 1, (short) 1))).all().get();
        try (Producer<String, String> producer = producer()) {
            for (int number = 0; number < 10; number++) producer.send(new ProducerRecord<>("ordered", "x")).get();
        }
        // Both are on their way before the first is answered.
        DeleteRecordsResult deleted = admin.deleteRecords(Map.of(at, RecordsToDelete.beforeOffset(7)));
        ListOffsetsResult listed = admin.listOffsets(Map.of(at, OffsetSpec.earliest()));
        deleted.all().get();
        return 10 - listed.partitionResult(at).get().offset();
    }

    static String expiredLock(Admin admin) throws Exception {
        NewTopic topic = new NewTopic("locks", 1, (short) 1).configs(Map.of("delivery.visibility.timeout.ms", "1000"));
        admin.createTopics(List.of(topic)).all().get();
        try (Producer<String, String> producer = producer()) {
            producer.send(new ProducerRecord<>("locks", "x")).get();
        }
        try (ShareConsumer<String, String> slow = sharing(); ShareConsumer<String, String> quick = sharing()) {
            ConsumerRecord<String, String> held = one(slow);
            ConsumerRecord<String, String> again = one(quick);
            slow.acknowledge(held, AcknowledgeType.ACCEPT);
            String late = slow.commitSync().values().stream().map(problem -> problem.map(error -> error.getClass().getSimpleName()).orElse("taken")).toList().toString();
            quick.acknowledge(again, AcknowledgeType.RELEASE);
            quick.commitSync();
            ConsumerRecord<String, String> third = one(quick);
            quick.acknowledge(third, AcknowledgeType.ACCEPT);
            quick.commitSync();
            // The slow one may have been given it once more in between, ahead of its next poll.
            boolean rises = held.deliveryCount().get() < again.deliveryCount().get() && again.deliveryCount().get() < third.deliveryCount().get();
            return late + (rises ? ", counts rise" : ", counts do not rise");
        }
    }

    static ConsumerRecord<String, String> one(ShareConsumer<String, String> consumer) {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (System.nanoTime() < deadline)
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(500))) return one;
        throw new IllegalStateException("no record came");
    }

    static ShareConsumer<String, String> sharing() {
        Map<String, Object> settings = new HashMap<>(settings());
        settings.put("group.id", "locks");
        settings.put("share.acknowledgement.mode", "explicit");
        ShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text(), text());
        consumer.subscribe(List.of("locks"));
        return consumer;
    }

    static Map<String, Object> settings() {
        return Map.of("bootstrap.servers", address);
    }

    static Producer<String, String> producer() {
        return new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer());
    }

    static StringDeserializer text() {
        return new StringDeserializer();
    }
}
