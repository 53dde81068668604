import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A NameNode and a DataNode on loopback, with their files in a folder: prints the URI, and ends with its input. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println(cluster.getURI());
        System.out.flush();
        while (System.in.read() >= 0) { }
        cluster.shutdown();
    }
}
