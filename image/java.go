package image

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// javaPackages and javaPrograms are Java, with what of it servers need.
var (
	javaPackages = []string{"openjdk-17-jre-headless"}
	javaPrograms = []string{
		"/usr/lib/jvm/java-17-openjdk-*/bin/java", "/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libnet.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libnio.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libjimage.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libverify.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libzip.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libmanagement.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libextnet.so",
	}
)

// addJava writes how Java is called, the recipe's archives first, with directories of
// more classes, and then its options with the main class, and gives Java its usual name, which the package
// leaves to a script.
//
// The Java archive of shared classes, which the distribution's script would dump
// when the package is installed, is left out: no dump is the same as the next.
func (b *build) addJava(arguments, options string, more ...string) error {
	locked, _, _, err := readLock(b.recipe.name, debianArch(b.store.arch))
	if err != nil {
		return err
	}
	var classes []string
	for _, j := range locked.Jars {
		classes = append(classes, "/"+path.Join(jarDirectory, j.file()))
	}
	classes = append(classes, more...)
	err = b.writeFiles(map[string][]byte{
		strings.TrimPrefix(arguments, "/"): []byte("-cp " + strings.Join(classes, ":") + "\n" + options),
	})
	if err != nil {
		return err
	}
	java, err := fs.Glob(os.DirFS(b.root), "usr/lib/jvm/java-17-openjdk-*/bin/java")
	if err != nil {
		return err
	}
	if len(java) != 1 {
		return fmt.Errorf("the packages bring %d Java run-times, want one", len(java))
	}
	return b.link("usr/bin/java", "/"+java[0])
}
