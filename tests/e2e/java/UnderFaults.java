// Apache Kafka's own client while nodes fail: a producer with its defaults, and a group that commits what it has read.
// Messages carry a count within their partition. It works until its input is closed. Each line that is printed then is
// "what partition rest"; by_java.py reads them.

import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class UnderFaults {
    static final long READ_MS_MAX = 120_000;
    // So many messages go to each partition before every pause: most of a run's messages come from here.
    static final int BURST = 8;
    static final ConcurrentLinkedQueue<String> failed = new ConcurrentLinkedQueue<>();
    static final Map<String, Integer> met = new TreeMap<>();
    static volatile boolean isStopping;
    static volatile boolean isProduced;
    static String servers;
    static String topic;
    static BitSet[] acknowledged;
    static BitSet[] seen;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        acknowledged = new BitSet[partitions];
        seen = new BitSet[partitions];
        for (int partition = 0; partition < partitions; partition++) {
            acknowledged[partition] = new BitSet();
            seen[partition] = new BitSet();
        }
        int[] sent = new int[partitions];
        var producing = new Thread(() -> produce(sent));
        var reading = new Thread(UnderFaults::read);
        producing.start();
        reading.start();
        while (System.in.read() >= 0) {
        }
        isStopping = true;
        producing.join();
        isProduced = true;
        reading.join();
        for (int partition = 0; partition < partitions; partition++) {
            System.out.println("sent " + partition + " " + sent[partition]);
            say("acknowledged", partition, acknowledged[partition]);
            say("seen", partition, seen[partition]);
        }
        for (String problem : failed) {
            System.out.println("failed - " + problem.replace('\n', ' '));
        }
        if (!met.isEmpty()) {
            System.out.println("met - " + met);
        }
    }

    static void produce(int[] sent) {
        var settings = settings();
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        try (var producer = new KafkaProducer<String, String>(settings)) {
            while (!isStopping) {
                for (int number = 0; number < BURST * sent.length; number++) {
                    int at = number % sent.length;
                    int count = sent[at]++;
                    producer.send(new ProducerRecord<>(topic, at, null, "" + count), (metadata, error) -> {
                        if (error != null) {
                            failed.add(at + " " + count + ": " + error);
                            return;
                        }
                        synchronized (acknowledged[at]) {
                            acknowledged[at].set(count);
                        }
                    });
                }
                Thread.sleep(20);
            }
        } catch (Exception error) {
            failed.add("the producer ended with " + error);
        }
    }

    static void read() {
        var settings = settings();
        settings.put("group.id", "java-readers");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        // A commit waits until it is safe on every replica: with few records for each, the producer would run away.
        settings.put("max.poll.records", "10000");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (var consumer = new KafkaConsumer<String, String>(settings)) {
            consumer.subscribe(List.of(topic));
            long deadline = Long.MAX_VALUE;
            while (System.currentTimeMillis() < deadline) {
                for (var one : consumer.poll(Duration.ofMillis(200))) {
                    seen[one.partition()].set(Integer.parseInt(one.value()));
                }
                try {
                    consumer.commitSync();
                } catch (KafkaException error) {
                    // The group rebalances, or its coordinator moves: what was read may be read again.
                    met.merge(error.getClass().getSimpleName(), 1, Integer::sum);
                }
                if (isProduced && deadline == Long.MAX_VALUE) {
                    deadline = System.currentTimeMillis() + READ_MS_MAX;
                }
                if (isProduced && isAllSeen()) {
                    return;
                }
            }
        } catch (Exception error) {
            failed.add("the consumer ended with " + error);
        }
    }

    static boolean isAllSeen() {
        for (int partition = 0; partition < seen.length; partition++) {
            var unseen = (BitSet) acknowledged[partition].clone();
            unseen.andNot(seen[partition]);
            if (!unseen.isEmpty()) {
                return false;
            }
        }
        return true;
    }

    static Properties settings() {
        var settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }

    static void say(String what, int partition, BitSet numbers) {
        var runs = new StringBuilder();
        for (int first = numbers.nextSetBit(0); first >= 0;) {
            int after = numbers.nextClearBit(first);
            runs.append(runs.isEmpty() ? "" : ",").append(first).append("-").append(after - 1);
            first = numbers.nextSetBit(after);
        }
        if (!runs.isEmpty()) {
            System.out.println(what + " " + partition + " " + runs);
        }
    }
}
