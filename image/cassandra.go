package image

import (
	"context"
	"slices"
	"strings"
)

// What cassandra's image holds.
const (
	// CassandraArguments are the arguments of Java that start the server.
	CassandraArguments = "/etc/cassandra/java.args"
	CassandraData      = "/data"
	CassandraPort      = 9042
	// CassandraStoragePort is at which nodes speak to one another, on loopback.
	CassandraStoragePort = 7000
)

// cassandraRecipe holds a Cassandra node, from the archives of its project, on the
// distribution's Java.
var cassandraRecipe = recipe{
	name:     "cassandra",
	summary:  "Cassandra node, and Java to run it",
	packages: javaPackages,
	// Cassandra measures objects by an agent, and looks at the machine that it runs on.
	programs: slices.Concat(javaPrograms, []string{
		"/usr/lib/jvm/java-17-openjdk-*/lib/libinstrument.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libmanagement_ext.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/librmi.so",
	}),
	directories: []string{CassandraData[1:]},
	jars:        []string{"org.apache.cassandra:cassandra-all:5.0.2"},
	config: Config{
		Cmd:        []string{"/usr/bin/java", "-Xms512m", "-Xmx512m", "@" + CassandraArguments},
		WorkingDir: CassandraData,
		Ports:      []int{CassandraPort},
	},
	add: addCassandra,
	sources: func() ([]byte, error) {
		return []byte(cassandraOptions() + cassandraConfiguration + cassandraLogging), nil
	},
}

// cassandraOpened are Java's own packages that Cassandra looks into, by the module
// that they are of. Java 17 keeps them closed where nobody asks.
var cassandraOpened = []string{
	"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.nio", "java.base/java.util",
	"java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.loader",
	"java.base/jdk.internal.math", "java.base/jdk.internal.module", "java.base/jdk.internal.ref", "java.base/jdk.internal.reflect",
	"java.base/jdk.internal.util.jar", "java.base/sun.nio.ch", "jdk.management/com.sun.management.internal",
}

var cassandraExported = []string{
	"java.base/java.lang.ref", "java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
	"java.management/com.sun.jmx.remote.security", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server",
	"java.sql/java.sql", "jdk.unsupported/sun.misc",
}

// cassandraOptions are Java's. The collector is Cassandra's usual one: Java by itself
// would take another where it sees one CPU or little memory, so that the setting and
// not the platform would be measured. The node is alone, and so waits for no other.
func cassandraOptions() string {
	var b strings.Builder
	for _, name := range cassandraOpened {
		b.WriteString("--add-opens " + name + "=ALL-UNNAMED\n")
	}
	for _, name := range cassandraExported {
		b.WriteString("--add-exports " + name + "=ALL-UNNAMED\n")
	}
	b.WriteString(`-XX:+UseG1GC
-XX:MaxGCPauseMillis=300
-XX:MaxDirectMemorySize=128m
-XX:+AlwaysPreTouch
-XX:+PerfDisableSharedMem
-XX:+ExitOnOutOfMemoryError
-Xss256k
-Djdk.attach.allowAttachSelf=true
-Djava.net.preferIPv4Stack=true
-Djava.io.tmpdir=/tmp
-javaagent:/` + jarDirectory + `/jamm-0.4.0.jar
-Dlogback.configurationFile=/etc/cassandra/logback.xml
-Dcassandra.config=file:///etc/cassandra/cassandra.yaml
-Dcassandra.storagedir=` + CassandraData + `
-Dcassandra.logdir=` + CassandraData + `
-Dcassandra.ring_delay_ms=1
-Dcassandra.skip_wait_for_gossip_to_settle=0
-Dcassandra.initial_token=0
-Dcassandra-foreground=yes
org.apache.cassandra.service.CassandraDaemon
`)
	return b.String()
}

// cassandraConfiguration is of one node, in little memory, with what a user would
// leave as it is left out. It speaks to itself over loopback, and to clients
// everywhere.
const cassandraConfiguration = `cluster_name: tare
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
listen_address: 127.0.0.1
storage_port: 7000
rpc_address: 0.0.0.0
broadcast_rpc_address: 127.0.0.1
native_transport_port: 9042
data_file_directories:
  - ` + CassandraData + `/data
commitlog_directory: ` + CassandraData + `/commitlog
saved_caches_directory: ` + CassandraData + `/saved_caches
hints_directory: ` + CassandraData + `/hints
cdc_enabled: false
auto_snapshot: false
hinted_handoff_enabled: false
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 8MiB
commitlog_total_space: 64MiB
memtable_heap_space: 96MiB
memtable_offheap_space: 32MiB
file_cache_size: 32MiB
networking_cache_size: 16MiB
key_cache_size: 16MiB
row_cache_size: 0MiB
counter_cache_size: 0MiB
concurrent_reads: 32
concurrent_writes: 32
disk_failure_policy: die
commit_failure_policy: die
read_request_timeout: ` + cassandraPatience + `
range_request_timeout: ` + cassandraPatience + `
write_request_timeout: ` + cassandraPatience + `
counter_write_request_timeout: ` + cassandraPatience + `
cas_contention_timeout: ` + cassandraPatience + `
truncate_request_timeout: ` + cassandraPatience + `
request_timeout: ` + cassandraPatience + `
native_transport_timeout: ` + cassandraPatience + `
slow_query_log_timeout: 0ms
`

// cassandraPatience is how long the node tries to answer. Its own few seconds would
// make errors of what a container with little of a CPU answers late, which is to be
// measured.
const cassandraPatience = "100s"

const cassandraLogging = `<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{HH:mm:ss,SSS} %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="STDOUT"/></root>
</configuration>
`

func addCassandra(_ context.Context, b *build) error {
	err := b.writeFiles(map[string][]byte{
		"etc/cassandra/cassandra.yaml": []byte(cassandraConfiguration),
		"etc/cassandra/logback.xml":    []byte(cassandraLogging),
	})
	if err != nil {
		return err
	}
	return b.addJava(CassandraArguments, cassandraOptions())
}
