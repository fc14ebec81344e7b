package image

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tare/programs"
)

// What wordpress' image holds.
const (
	// Supervise runs several programs as one (programs/supervise).
	Supervise = "/usr/bin/supervise"
	// WordPressServer is Apache's server, WordPressServerConfig its configuration,
	// which leaves to the command line where it listens, and how many workers it has.
	WordPressServer       = "/usr/sbin/apache2"
	WordPressServerConfig = "/etc/wordpress/httpd.conf"
	// WordPressDatabase is MariaDB's server, WordPressDatabaseConfig its configuration.
	// It serves at a socket in the file system and at no port.
	WordPressDatabase       = "/usr/sbin/mariadbd"
	WordPressDatabaseConfig = "/etc/wordpress/mariadb.cnf"
	// WordPressTables makes, as the input of the database's server, its own tables and
	// an empty database for the site.
	WordPressTables = "/etc/wordpress/tables.sql"
	// WordPressData is where the database lies. It is empty: no two runs of the
	// database write the same bytes, so that an image with its files in it would not be
	// the same twice.
	WordPressData = "/data"
	// WordPressPort is where the site answers, as WordPressHost.
	WordPressPort = 80
	WordPressHost = "localhost"
	// WordPressBacklog is how many connections wait at the server for a worker; the
	// kernel takes the less of this and net.core.somaxconn.
	WordPressBacklog = 4096
	// WordPressConnections is how many connections the database takes; each of the
	// server's workers has one.
	WordPressConnections = 512
)

// wordpressRecipe holds WordPress with its theme of that year, PHP as a module of
// Apache's server, MariaDB, and a program of ours that runs the two as one.
var wordpressRecipe = recipe{
	name:    "wordpress",
	summary: "WordPress with Apache httpd, PHP and MariaDB",
	// Without a theme WordPress answers with an empty page.
	packages: []string{
		"apache2-bin", "libapache2-mod-php8.2", "php8.2-mysql", "php8.2-opcache", "mariadb-server-core",
		"wordpress", "wordpress-theme-twentytwentythree",
	},
	programs: slices.Concat(
		[]string{WordPressServer, WordPressDatabase, "/" + wordpressPHP},
		modulePaths(wordpressModules),
		[]string{"/usr/lib/php/*/mysqli.so", "/usr/lib/php/*/mysqlnd.so", "/usr/lib/php/*/opcache.so"},
	),
	keep: []string{
		"libgcc-s1", // which the C library loads to end a thread
		"tzdata",    // from which Debian's PHP has its time zones
	},
	directories: []string{WordPressData[1:]},
	config: Config{
		Cmd:        WordPressCommand(wordpressWorkers, "0.0.0.0", WordPressPort),
		WorkingDir: WordPressData,
		Ports:      []int{WordPressPort},
	},
	tools: compilerRecipe.name,
	add:   addWordPress,
	sources: func() ([]byte, error) {
		var texts []string
		files := wordpressFiles()
		for _, name := range sortedKeys(files) {
			texts = append(texts, name, string(files[name]))
		}
		arguments := slices.Concat(
			programs.SuperviseFlags,
			programs.SuperviseSources,
			wordpressTables,
			texts,
			[]string{wordpressBefore, wordpressAfter},
		)
		return sourcesOf(programs.Supervise, arguments)
	},
}

// WordPressCommand makes the database's tables, and then runs the database and the
// server at an address and a port, with so many workers, all of them from the start.
func WordPressCommand(workers int, address string, port int) []string {
	n := strconv.Itoa(workers)
	return []string{
		Supervise, "--first", WordPressTables,
		// What a crash would lose is made anew, so that nothing waits for the disk.
		WordPressDatabase, "--defaults-file=" + WordPressDatabaseConfig, "--bootstrap", "--innodb-flush-method=nosync", "--debug-no-sync",
		"--", WordPressDatabase, "--defaults-file=" + WordPressDatabaseConfig,
		"--", WordPressServer, "-C", "Define WORKERS " + n, "-D", "FOREGROUND", "-f", WordPressServerConfig,
		"-c", "Listen " + net.JoinHostPort(address, strconv.Itoa(port)),
	}
}

// wordpressWorkers are Apache's own number.
const wordpressWorkers = 150

const wordpressPHP = "usr/lib/apache2/modules/libphp8.2.so"

// wordpressModules are the server's: PHP's runs only in processes of one thread each.
var wordpressModules = []string{"mpm_prefork", "authz_core", "authz_host", "dir", "mime"}

// wordpressTables are the statements by which MariaDB's own set-up makes its tables,
// in its order; the help texts and views for people are left out.
var wordpressTables = []string{
	"usr/share/mysql/mysql_system_tables.sql", "usr/share/mysql/mysql_performance_tables.sql",
	"usr/share/mysql/mysql_system_tables_data.sql", "usr/share/mysql/maria_add_gis_sp_bootstrap.sql",
}

const (
	wordpressBefore = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket='root';\n"
	wordpressAfter  = "FLUSH PRIVILEGES;\nCREATE DATABASE wordpress CHARACTER SET utf8mb4;\n" +
		"CREATE USER wordpress@localhost;\nGRANT ALL ON wordpress.* TO wordpress@localhost;\n"
)

// wordpressFiles are the configurations, which the distribution puts together by
// scripts that do not run here.
func wordpressFiles() map[string][]byte {
	files := map[string]string{
		WordPressServerConfig:          wordpressServerConfiguration(),
		WordPressDatabaseConfig:        wordpressDatabaseConfiguration,
		"/etc/php/8.2/apache2/php.ini": wordpressPHPConfiguration,
		"/etc/wordpress/mime.types":    mimeTypes + "text/css css\ntext/javascript js\n",
		// The package's own configuration reads it.
		"/etc/wordpress/config-default.php":                  wordpressSite,
		"/var/lib/wordpress/wp-content/mu-plugins/alone.php": wordpressAlone,
	}
	out := map[string][]byte{}
	for name, text := range files {
		out[name[1:]] = []byte(text)
	}
	return out
}

// Nothing is checked, fetched or mailed beside the requests, so that they are all
// the work that there is.
const wordpressSite = `<?php
define('DB_HOST', 'localhost:/run/mariadb.sock');
define('DB_PASSWORD', '');
define('WP_HOME', 'http://` + WordPressHost + `');
define('WP_SITEURL', 'http://` + WordPressHost + `');
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISALLOW_FILE_MODS', true);
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $of) {
	define($of . '_KEY', 'tare weighs ' . $of);
	define($of . '_SALT', 'tare salts ' . $of);
}
`

const wordpressAlone = `<?php
add_filter('pre_http_request', fn() => new WP_Error('alone', 'no request leaves this site'));
add_filter('pre_wp_mail', '__return_true');
`

// MariaDB's user is root since no other is needed; files are written in the ordinary
// manner and not by io_uring, which one container's seccomp filter allows and
// another's does not.
var wordpressDatabaseConfiguration = `[mariadbd]
user=root
datadir=` + WordPressData + `
socket=/run/mariadb.sock
pid-file=/run/mariadb.pid
tmpdir=/tmp
lc-messages-dir=/usr/share/mysql
skip-networking
skip-name-resolve
character-set-server=utf8mb4
innodb-use-native-aio=0
innodb-buffer-pool-size=64M
innodb-log-file-size=16M
key-buffer-size=1M
aria-pagecache-buffer-size=8M
max-connections=` + strconv.Itoa(WordPressConnections) + "\n"

const wordpressPHPConfiguration = `[PHP]
extension=mysqlnd
extension=mysqli
zend_extension=opcache
memory_limit=128M
display_errors=Off
log_errors=On
expose_php=Off
sendmail_path=
date.timezone=UTC
opcache.memory_consumption=64
`

func wordpressServerConfiguration() string {
	return loadModules(wordpressModules) + fmt.Sprintf(`LoadModule php_module /%s
ListenBacklog %d
ServerLimit ${WORKERS}
MaxRequestWorkers ${WORKERS}
StartServers ${WORKERS}
MinSpareServers ${WORKERS}
MaxSpareServers ${WORKERS}
ServerRoot /run
DefaultRuntimeDir /run
PidFile /run/httpd.pid
ServerName %s
User nobody
Group nogroup
ErrorLog /proc/self/fd/2
LogLevel warn
TypesConfig /etc/wordpress/mime.types
DocumentRoot /usr/share/wordpress
DirectoryIndex index.php
<FilesMatch "\.php$">
	SetHandler application/x-httpd-php
</FilesMatch>
<Directory />
	AllowOverride None
	Require all denied
</Directory>
<Directory /usr/share/wordpress>
	Options FollowSymLinks
	Require all granted
</Directory>
`, wordpressPHP, WordPressBacklog, WordPressHost)
}

func addWordPress(ctx context.Context, b *build) error {
	sources, err := sourcesIn(programs.Supervise)
	if err != nil {
		return err
	}
	err = b.compile(ctx, Supervise[1:], sources, programs.SuperviseFlags, programs.SuperviseSources...)
	if err != nil {
		return err
	}
	files := wordpressFiles()
	tables := bytes.NewBufferString(wordpressBefore)
	for _, name := range wordpressTables {
		text, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			return err
		}
		tables.Write(text)
		tables.WriteByte('\n')
	}
	tables.WriteString(wordpressAfter)
	files[WordPressTables[1:]] = tables.Bytes()
	return b.writeFiles(files)
}
