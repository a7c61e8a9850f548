package probe

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatAProcessWasStartedWithIsToldAndNoSecretIs(t *testing.T) {
	for name, c := range map[string]struct {
		command, environment string
		want                 []string
	}{
		"Go": {
			command: "shop -addr :80", environment: "HOME=/root GOGC=20 GOMEMLIMIT=64MiB API_KEY=x",
			want: []string{"GOGC=20", "GOMEMLIMIT=64MiB"},
		},
		"a JVM": {
			command:     "java -Xmx256m -XX:+UseSerialGC -Ddb.password=geheim -jar app.jar",
			environment: "JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=1_-Dtoken=abc_-Xms64m",
			want: []string{
				"-XX:ActiveProcessorCount=1", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC",
			},
		},
		"Node": {
			command:     "node --max-old-space-size=64 app.js --token 12",
			environment: "NODE_OPTIONS=--max-semi-space-size=1 UV_THREADPOOL_SIZE=2",
			want: []string{
				"--max-semi-space-size=1", "UV_THREADPOOL_SIZE=2", "--max-old-space-size=64",
			},
		},
		"workers": {
			command: "gunicorn --workers 2 --threads=4 -b :80 -w 1 app:app --secret 7",
			want:    []string{"--workers 2", "--threads=4", "-w 1"},
		},
		"workers of pm2, and threads of puma": {
			command: "pm2 start app.js -i 4 -j2 -t 5:16 -t1:8", want: []string{
				"-i 4", "-j2", "-t 5:16", "-t1:8",
			},
		},
		"addresses and numbers of somebody": {
			command: "x -i10.0.0.7 -i 10.0.0.7 -t4915112345678 -t 4915112345678 -w1.5 -j8080abc " +
				"-XX:MaxHeapSize=1.2.3.4 --workers 4915112345678 -XX:MaxRAMPercentage=75.0",
			want: []string{"-XX:MaxRAMPercentage=75.0"},
		},
		"something else":         {environment: "GOGC=$(cat) GOMAXPROCS=2;x"},
		"a name that is another": {environment: "MY_GOGC=20 GOGC_X=1"},
	} {
		f := newFakeProc(t)
		words := strings.NewReplacer(" ", "\x00")
		f.write("20/cmdline", words.Replace(c.command))
		f.write("20/environ", strings.ReplaceAll(words.Replace(c.environment), "_-", " -"))
		if got := knobsOf(f.root, 20); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := knobsOf(newFakeProc(t).root, 20); got != nil {
		t.Errorf("of a process that is not there: %q", got)
	}
}
