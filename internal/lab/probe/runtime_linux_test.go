package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestTheRuntimeIsKnownFromTheProcess(t *testing.T) {
	// In a command "_" stands for a space within a word, as in a title that a process has given
	// itself.
	for name, c := range map[string]struct {
		exe, command, maps string
		want               Runtime
	}{
		"Node": {
			exe: "/usr/bin/node", command: "node app.js",
			want: Runtime{measure.RuntimeNode, "", ""},
		},
		"an old Node": {
			exe: "/usr/bin/nodejs", command: "nodejs app.js",
			want: Runtime{measure.RuntimeNode, "", ""},
		},
		"CPython": {
			exe: "/usr/bin/python3.12", command: "python3 app.py",
			want: Runtime{measure.RuntimeCPython, "3.12", ""},
		},
		"gunicorn": {
			exe: "/usr/bin/python3.12", command: "/usr/bin/python3 /usr/bin/gunicorn -w 4",
			want: Runtime{measure.RuntimeCPython, "3.12", "gunicorn"},
		},
		"its title": {
			exe: "/usr/bin/python3.9", command: "gunicorn:_master",
			want: Runtime{measure.RuntimeCPython, "3.9", "gunicorn"},
		},
		"uvicorn": {
			exe: "/usr/bin/python3", command: "python3 -m uvicorn app:app",
			want: Runtime{measure.RuntimeCPython, "3", "uvicorn"},
		},
		"the JVM": {
			exe: "/opt/jdk-21/bin/java", command: "java -jar app.jar",
			want: Runtime{measure.RuntimeJVM, "", ""},
		},
		"Tomcat": {
			exe: "/opt/jdk-21/bin/java", command: "java org.apache.catalina.startup.Bootstrap start",
			want: Runtime{measure.RuntimeJVM, "", "tomcat"},
		},
		"Ruby": {
			exe: "/usr/bin/ruby3.1", command: "ruby app.rb",
			want: Runtime{measure.RuntimeRuby, "3.1", ""},
		},
		"PHP-FPM": {
			exe: "/usr/sbin/php-fpm8.2", command: "php-fpm:_master_process",
			want: Runtime{measure.RuntimePHPFPM, "8.2", ""},
		},
		".NET": {
			exe: "/usr/bin/dotnet", command: "dotnet app.dll",
			want: Runtime{measure.RuntimeDotNet, "", ""},
		},
		".NET, alone": {
			exe: "/app/shop", command: "/app/shop",
			maps: "/app/libcoreclr.so",
			want: Runtime{measure.RuntimeDotNet, "", ""},
		},
		"a JVM inside": {
			exe: "/opt/app/launcher", command: "launcher",
			maps: "/opt/app/lib/libjvm.so",
			want: Runtime{measure.RuntimeJVM, "", ""},
		},
		"uWSGI": {
			exe: "/usr/bin/uwsgi", command: "uwsgi --http :80",
			maps: "/usr/lib/libpython3.11.so.1.0",
			want: Runtime{measure.RuntimeCPython, "3.11", "uwsgi"},
		},
		"nobody knows": {
			exe: "/app/x", command: "x",
		},
		"an argument": {
			exe: "/app/x", command: "x --title=gunicorn",
		},
	} {
		f := newFakeProc(t)
		f.write("20/cmdline", strings.NewReplacer(" ", "\x00", "_", " ").Replace(c.command))
		f.write("20/maps", "7f00-7f01 r-xp 0 0:0 1 "+c.maps+"\n")
		if err := os.Symlink(c.exe, filepath.Join(f.root, "20", "exe")); err != nil {
			t.Fatal(err)
		}
		if got := runtimeOf(f.root, 20); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestProgramsThatAreCompiledAreToldByTheirFiles(t *testing.T) {
	if got := RuntimeOf(os.Getpid()); got.Name != measure.RuntimeGo || !strings.HasPrefix(got.Version,
		"go1.") {
		t.Errorf("this test is of %+v", got)
	}
	f := newFakeProc(t)
	f.write("20/maps", "")
	if err := os.Symlink("/bin/sh", filepath.Join(f.root, "20", "exe")); err != nil {
		t.Fatal(err)
	}
	if got := runtimeOf(f.root, 20); got.Name != measure.RuntimeC {
		t.Errorf("the shell is of %+v", got)
	}
	f.write("20/maps", "7f00-7f01 r-xp 0 0:0 1 /usr/lib/libstdc++.so.6\n")
	if got := runtimeOf(f.root, 20); got.Name != measure.RuntimeCpp {
		t.Errorf("with the library of C++ it is of %+v", got)
	}
	if got := runtimeOf(f.root, 99); got != (Runtime{}) {
		t.Errorf("a process that does not exist is of %+v", got)
	}
}
