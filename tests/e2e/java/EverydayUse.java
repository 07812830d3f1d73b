// What programs do with Apache Kafka's own Java client every day, against the broker at the address given.
// Each line that is printed is "what: result"; test_java_client.py knows what the results must be.

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class EverydayUse {
    static final int MESSAGES = 1000;
    static final long WAIT_MS = 20_000;
    static String address;
    // Settings for a broker with security, from a file that may be given behind the address.
    static final Properties security = new Properties();

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        if (arguments.length > 1) {
            try (var file = Files.newBufferedReader(Path.of(arguments[1]))) {
                security.load(file);
            }
        }
        try (var admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic("orders", 3, (short) 1))).all().get(20, TimeUnit.SECONDS);
            say("partitions", admin.describeTopics(List.of("orders")).allTopicNames().get().get("orders").partitions().size());
        }
        produce();
        say("classic group", read("orders", MESSAGES, "group.id", "classic").size());
        say("cooperative group", read("orders", MESSAGES, "group.id", "cooperative",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor").size());
        say("group by the new protocol", read("orders", MESSAGES, "group.id", "new", "group.protocol", "consumer").size());
        say("share group", share());
        transactions();
        say("committed only", read("transfers", 20, "group.id", "committed", "isolation.level", "read_committed"));
        try (var admin = Admin.create(settings())) {
            say("groups", new TreeSet<>(admin.listGroups().all().get().stream().map(one -> one.groupId()).toList()));
            say("committed offsets", admin.listConsumerGroupOffsets("classic").partitionsToOffsetAndMetadata().get()
                .values().stream().mapToLong(one -> one.offset()).sum());
            var last = admin.describeTransactions(List.of("mover")).all().get().get("mover");
            say("epochs of four transactions", last.producerEpoch());
            admin.deleteTopics(List.of("orders", "transfers")).all().get(20, TimeUnit.SECONDS);
            say("topics left", admin.listTopics().names().get().size());
        }
    }

    static void produce() {
        var codecs = List.of("none", "gzip", "snappy", "lz4", "zstd");
        for (String codec : codecs) {
            try (var producer = producer("acks", "all", "compression.type", codec)) {
                for (int i = 0; i < MESSAGES / codecs.size(); i++) {
                    producer.send(new ProducerRecord<>("orders", "key-" + i, codec + "-" + i));
                }
            }
        }
    }

    static void transactions() {
        try (var producer = producer("transactional.id", "mover")) {
            producer.initTransactions();
            for (int number = 0; number < 4; number++) {
                producer.beginTransaction();
                for (int i = 0; i < 10; i++) {
                    producer.send(new ProducerRecord<>("transfers", number + "-" + i));
                }
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    static TreeSet<String> read(String topic, int wanted, Object... pairs) {
        var found = new TreeSet<String>();
        var settings = settings(pairs);
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + WAIT_MS;
            while (found.size() < wanted && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> found.add(one.value()));
            }
            consumer.commitSync();
        }
        return found;
    }

    static int share() {
        var values = new ArrayList<String>();
        try (var consumer = new KafkaShareConsumer<>(settings("group.id", "shared", "max.poll.records", "30"), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            long end = System.currentTimeMillis() + WAIT_MS;
            while (values.size() < MESSAGES && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> values.add(one.value()));
            }
            consumer.commitSync();
        }
        return values.size() == new TreeSet<>(values).size() ? values.size() : -1;
    }

    static KafkaProducer<String, String> producer(Object... pairs) {
        return new KafkaProducer<>(settings(pairs), new StringSerializer(), new StringSerializer());
    }

    static Map<String, Object> settings(Object... pairs) {
        var map = new HashMap<String, Object>();
        map.put("bootstrap.servers", address);
        security.forEach((name, value) -> map.put((String) name, value));
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }

    static void say(String what, Object result) {
        System.out.println(what + ": " + result);
    }
}
