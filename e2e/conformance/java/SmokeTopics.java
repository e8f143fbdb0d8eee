import org.apache.kafka.streams.TopologyDescription;
import org.apache.kafka.streams.tests.SmokeTestClient;

/** Prints the topics that the application of Kafka's StreamsSmokeTest writes, one a line, without internal ones. */
public final class SmokeTopics {
    private SmokeTopics() { }

    public static void main(final String[] args) {
        for (final TopologyDescription.Subtopology subtopology : new SmokeTestClient("described").getTopology().describe().subtopologies()) {
            for (final TopologyDescription.Node node : subtopology.nodes()) {
                if (node instanceof TopologyDescription.Sink) {
                    final String topic = ((TopologyDescription.Sink) node).topic();
                    if (!topic.endsWith("-repartition")) {
                        System.out.println(topic);
                    }
                }
            }
        }
    }
}
