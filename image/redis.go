package image

// redisRecipe holds the server and its own load generator, so that both ends
// are the same build everywhere. The server's scripts and unit files are left
// out with what they need.
var redisRecipe = recipe{
	name:        "redis",
	summary:     "Redis server, redis-cli and redis-benchmark",
	packages:    []string{"redis-server", "redis-tools"},
	programs:    []string{"/usr/bin/redis-server", "/usr/bin/redis-cli", "/usr/bin/redis-benchmark"},
	directories: []string{"data"},
	config: Config{
		Cmd:        []string{"/usr/bin/redis-server", "--dir", "/data", "--protected-mode", "no"},
		WorkingDir: "/data",
		Ports:      []int{6379},
	},
}
