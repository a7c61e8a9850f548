package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheRuntimeIsKnownFromTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		exe, command, maps string
		want               Runtime
	}{
		"Node":         {"/usr/bin/node", "node\x00app.js\x00", "", Runtime{RuntimeNode, "", ""}},
		"an old Node":  {"/usr/bin/nodejs", "nodejs\x00app.js\x00", "", Runtime{RuntimeNode, "", ""}},
		"CPython":      {"/usr/bin/python3.12", "python3\x00app.py\x00", "", Runtime{RuntimeCPython, "3.12", ""}},
		"gunicorn":     {"/usr/bin/python3.12", "/usr/bin/python3\x00/usr/bin/gunicorn\x00-w\x004\x00", "", Runtime{RuntimeCPython, "3.12", "gunicorn"}},
		"its title":    {"/usr/bin/python3.9", "gunicorn: master [app]", "", Runtime{RuntimeCPython, "3.9", "gunicorn"}},
		"uvicorn":      {"/usr/bin/python3", "python3\x00-m\x00uvicorn\x00app:app\x00", "", Runtime{RuntimeCPython, "3", "uvicorn"}},
		"the JVM":      {"/opt/jdk-21/bin/java", "java\x00-jar\x00app.jar\x00", "", Runtime{RuntimeJVM, "", ""}},
		"Tomcat":       {"/opt/jdk-21/bin/java", "java\x00org.apache.catalina.startup.Bootstrap\x00start\x00", "", Runtime{RuntimeJVM, "", "tomcat"}},
		"Ruby":         {"/usr/bin/ruby3.1", "puma 6.4.0 (tcp://0.0.0.0:9292)", "", Runtime{RuntimeRuby, "3.1", ""}},
		"PHP-FPM":      {"/usr/sbin/php-fpm8.2", "php-fpm: master process (/etc/php-fpm.conf)", "", Runtime{RuntimePHPFPM, "8.2", ""}},
		".NET":         {"/usr/bin/dotnet", "dotnet\x00app.dll\x00", "", Runtime{RuntimeDotNet, "", ""}},
		".NET, alone":  {"/app/shop", "/app/shop\x00", "7f00-7f01 r-xp 0 0:0 1 /app/libcoreclr.so\n", Runtime{RuntimeDotNet, "", ""}},
		"a JVM inside": {"/opt/app/launcher", "launcher\x00", "7f00-7f01 r-xp 0 0:0 1 /opt/app/lib/libjvm.so\n", Runtime{RuntimeJVM, "", ""}},
		"uWSGI":        {"/usr/bin/uwsgi", "uwsgi\x00--http\x00:80\x00", "7f00-7f01 r-xp 0 0:0 1 /usr/lib/libpython3.11.so.1.0\n", Runtime{RuntimeCPython, "3.11", "uwsgi"}},
		"nobody knows": {"/app/x", "x\x00", "", Runtime{}},
		"an argument":  {"/app/x", "x\x00--title=gunicorn\x00", "", Runtime{}},
	} {
		f := newFakeProc(t)
		f.write("20/cmdline", c.command)
		f.write("20/maps", c.maps)
		if err := os.Symlink(c.exe, filepath.Join(f.root, "20", "exe")); err != nil {
			t.Fatal(err)
		}
		if got := runtimeOf(f.root, 20); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestProgramsThatAreCompiledAreToldByTheirFiles(t *testing.T) {
	if got := RuntimeOf(os.Getpid()); got.Name != RuntimeGo || !strings.HasPrefix(got.Version, "go1.") {
		t.Errorf("this test is of %+v", got)
	}
	f := newFakeProc(t)
	f.write("20/maps", "")
	if err := os.Symlink("/bin/sh", filepath.Join(f.root, "20", "exe")); err != nil {
		t.Fatal(err)
	}
	if got := runtimeOf(f.root, 20); got.Name != RuntimeC {
		t.Errorf("the shell is of %+v", got)
	}
	f.write("20/maps", "7f00-7f01 r-xp 0 0:0 1 /usr/lib/libstdc++.so.6\n")
	if got := runtimeOf(f.root, 20); got.Name != RuntimeCpp {
		t.Errorf("with the library of C++ it is of %+v", got)
	}
	if got := runtimeOf(f.root, 99); got != (Runtime{}) {
		t.Errorf("a process that does not exist is of %+v", got)
	}
}
