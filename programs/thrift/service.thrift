/*
 * The service whose latency is measured: its calls carry nothing, bytes to the
 * server, or bytes from it, and no more than that.
 *
 * What the compiler makes of this file is beside it (python/latency, server);
 * generate.sh makes it anew.
 */
namespace py latency
namespace go main

/** Refused says why a request is not served. */
exception Refused {
	1: string why
}

service Latency {
	/** ping carries nothing either way. */
	void ping()
	/** receive takes bytes, and answers when it has them all. */
	void receive(1: binary data)
	/** send answers with so many bytes. */
	binary send(1: i32 size) throws (1: Refused refused)
}
