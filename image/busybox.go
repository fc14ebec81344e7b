package image

var busyboxRecipe = recipe{
	name:     "busybox",
	summary:  "one static program that is a shell and the small tools: the least root that a command can run in",
	packages: []string{"busybox-static"},
	programs: []string{"/bin/busybox"},
	config:   Config{Cmd: []string{"/bin/sh"}, WorkingDir: "/"},
	links:    busyboxLinks(),
}

// busyboxLinks names the tools as users do; busybox looks at the name it is
// called by.
func busyboxLinks() map[string]string {
	links := map[string]string{}
	for _, tool := range []string{
		"ash", "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname", "du", "echo",
		"env", "expr", "false", "find", "free", "grep", "head", "hostname", "id", "ip", "kill", "ln", "ls", "md5sum",
		"mkdir", "mkfifo", "mktemp", "mount", "mv", "nc", "nproc", "od", "ping", "printf", "ps", "pwd", "readlink",
		"rm", "rmdir", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat", "stty", "sync", "tail", "tar", "taskset",
		"tee", "test", "time", "timeout", "touch", "tr", "true", "tty", "umount", "uname", "uniq", "wc", "wget",
		"which", "xargs", "yes", "httpd",
	} {
		links["usr/bin/"+tool] = "busybox"
	}
	return links
}
