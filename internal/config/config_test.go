//go:build !race

package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll/internal/config"
)

var update = flag.Bool("update", false, "write the golden files and docs/config.md")

// golden compares got with the file, or writes the file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), write it with: go test ./internal/config -update\n%s", path, diff)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: no test data (%v)", pattern, err)
	}
	return found
}

func setEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("PLIMSOLL_TEST_LOOPS", "3")
	t.Setenv("PLIMSOLL_TEST_BODY", "a ${host} of the environment")
}

func TestGoodConfigurationsLoad(t *testing.T) {
	setEnvironment(t)
	for _, file := range files(t, "testdata/good/*.yaml") {
		if _, err := config.Load(file); err != nil {
			t.Errorf("%s does not load:\n%v", file, err)
		}
	}
}

func TestBadConfigurationsNameEveryError(t *testing.T) {
	for _, file := range files(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := config.Load(file)
			var list config.Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("the error is %T %v, want config.Errors", err, err)
			}
			golden(t, strings.TrimSuffix(file, "yaml")+"err", []byte(err.Error()+"\n"))
		})
	}
}

func TestEveryErrorHasAPositionAKeyAndAdvice(t *testing.T) {
	form := regexp.MustCompile(`^testdata/bad/\w+\.yaml(:\d+:\d+)?: .+[;:?] ?.+$`)
	advice := regexp.MustCompile(`[;?]`)
	for _, file := range files(t, "testdata/bad/*.yaml") {
		_, err := config.Load(file)
		var list config.Errors
		if !errors.As(err, &list) {
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range list {
			if text := e.Error(); !form.MatchString(text) || !advice.MatchString(text) {
				t.Errorf("not of the form file:line:col: key: what is wrong; what to do:\n%s", text)
			}
			if e.Line == 0 && filepath.Base(file) != "empty.yaml" {
				t.Errorf("no position: %v", e)
			}
		}
	}
}

func TestAFileThatIsMissingIsOneClearLine(t *testing.T) {
	_, err := config.Load("testdata/nowhere.yaml")
	want := "testdata/nowhere.yaml: the configuration cannot be read: no such file or directory; give the path of a readable file"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestKeysThatAreAbsentHaveTheirDefaults(t *testing.T) {
	cfg := parse(t, `
listeners: [{address: "127.0.0.1:8080"}]
upstreams: {a: {targets: ["127.0.0.1:1"], health: {active: {path: /}}}}
routes: [{match: /, upstream: a, mirror: {upstream: a}}]
access_log: {path: stdout}
`)
	up := cfg.Upstreams["a"]
	if up.Balance.Policy != "p2c" || *up.Health.Panic != 0.3 || *up.Targets[0].Weight != 1 || *up.Retry.Attempts != 1 {
		t.Errorf("upstream: %+v", up)
	}
	if *up.Health.Passive.ConsecutiveFailures != 5 ||
		*up.Health.Passive.SuccessRateDeviations != 1.9 || *up.Health.Passive.MaxEjected != 0.5 {
		t.Errorf("passive: %+v", up.Health.Passive)
	}
	if diff := cmp.Diff([]string{"connect", "reset"}, up.Retry.On); diff != "" {
		t.Error(diff)
	}
	if r := cfg.Routes[0]; r.SLA != "P1" || r.Name != "/" || *r.Mirror.Share != 1 || r.Mirror.MaxBody != 64<<10 {
		t.Errorf("route: %+v", r)
	}
	if l := cfg.AccessLog; l.Format != "json" || *l.MaxSize != 100<<20 || *l.Keep != 5 {
		t.Errorf("access log: %+v", l)
	}
}

func TestAZeroThatIsWrittenIsNotADefault(t *testing.T) {
	cfg := parse(t, `
listeners: [{address: "127.0.0.1:8080", limits: {min_body_rate: 0}}]
upstreams: {a: {targets: ["127.0.0.1:1", {address: "127.0.0.1:2", weight: 0}], health: {panic: 0%}, retry: {attempts: 0, on: []}}}
drain: {timeout: 0s}
`)
	up := cfg.Upstreams["a"]
	if cfg.Listeners[0].Limits.MinBodyRate != 0 || cfg.Drain.Timeout != 0 || *up.Health.Panic != 0 || *up.Retry.Attempts != 0 ||
		*up.Targets[1].Weight != 0 || len(up.Retry.On) != 0 {
		t.Errorf("%+v %+v", cfg, up)
	}
	// The defaults that others share are as they were.
	if other := parse(t, "listeners: [{address: \":1\"}]\nupstreams: {a: {targets: [\"b:1\"]}}").Upstreams["a"]; *other.Health.Panic != 0.3 {
		t.Errorf("the default became %v", *other.Health.Panic)
	}
}

func TestDefaultsThatDependOnOtherKeysFollowThem(t *testing.T) {
	up := parse(t, `
listeners: [{address: "localhost:8080"}]
upstreams:
  a:
    targets: ["127.0.0.1:1"]
    balance: {hash: "cookie:id"}
    pool: {max_connections: 10}
    health: {active: {path: /, interval: 500ms}}
`).Upstreams["a"]
	if up.Pool.MaxIdle != 10 || up.Balance.Policy != "hash" || up.Health.Active.Timeout.String() != "500ms" {
		t.Errorf("%+v", up)
	}
}

func TestAddressesAreCanonical(t *testing.T) {
	cfg := parse(t, `listeners: [{address: "localhost:08080"}, {address: "[0::1]:1"}, {address: ":0"}, {address: "0.0.0.0:0"}]
admin: {address: "127.0.0.1:0"}`)
	for i, want := range []string{"127.0.0.1:8080", "[::1]:1", ":0", "0.0.0.0:0"} {
		if got := cfg.Listeners[i].Address; got != want {
			t.Errorf("address %d is %q, want %q", i, got, want)
		}
	}
}

func TestRoutesOfOneMatchGetNamesThatDiffer(t *testing.T) {
	cfg := parse(t, `
listeners: [{address: ":1"}]
routes:
  - {match: /, respond: {}}
  - {match: /, respond: {}, when: {headers: {A: b}}}
  - {match: /, respond: {}, name: "/ #3"}
  - {match: /, respond: {}, when: {query: {A: b}}}
`)
	var names []string
	for _, r := range cfg.Routes {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"/", "/ #2", "/ #3", "/ #4"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestWhatLaterStagesCheckKnowsWhereItBegins(t *testing.T) {
	cfg := parse(t, "listeners: [{address: \":1\"}]\nroutes:\n  - match: /a\n    respond: {}\n  - {match: /b, respond: {}}\n"+
		"upstreams:\n  u: {targets: [\"127.0.0.1:1\"]}\n")
	for _, c := range []struct{ got, want string }{
		{cfg.Routes[0].Position().String(), "test.yaml:3:5"},
		{cfg.Routes[1].Position().String(), "test.yaml:5:5"},
		{cfg.Listeners[0].Position().String(), "test.yaml:1:13"},
		{cfg.Upstreams["u"].Position().String(), "test.yaml:7:6"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestAListenerIsTheSameWhereverItStands(t *testing.T) {
	a := parse(t, "listeners: [{address: \":1\"}]\nroutes: []\n").Listeners[0]
	b := parse(t, "\nroutes: []\nlisteners:\n  - address: \":1\"\n").Listeners[0]
	if !a.Same(b) {
		t.Error("a listener that only moved is taken for another")
	}
	if b.Limits.MaxRequests = 7; a.Same(b) {
		t.Error("a listener with other limits is taken for the same")
	}
}

func TestTheListOfAGuardIsRelativeToTheConfiguration(t *testing.T) {
	cfg := parse(t, "listeners: [{address: \":1\"}]\nupstreams: {s: {targets: [\"127.0.0.1:1\"]}}\n"+
		"routes: [{match: \"/{id}\", upstream: s, guard: {key: \"path:id\", file: keys.txt}}]\n")
	if got := cfg.Routes[0].Guard.File; got != filepath.Join("testdata", "good", "keys.txt") {
		t.Errorf("the file is %q", got)
	}
}

func TestAFileIsReadRelativeToTheConfiguration(t *testing.T) {
	cfg, err := config.Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(cfg.Routes[2].Respond.Content); got != "User-agent: *\n" {
		t.Errorf("content %q", got)
	}
	if got := cfg.Listeners[0].TLS.Certificates[0].Cert; got != filepath.Join("testdata", "good", "site.pem") {
		t.Errorf("certificate %q", got)
	}
}

func TestTheYAMLOfAConfigurationLoadsAsTheSame(t *testing.T) {
	setEnvironment(t)
	for _, file := range files(t, "testdata/good/*.yaml") {
		cfg, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		written := cfg.YAML()
		again, err := config.Parse(file, written, "")
		if err != nil {
			t.Errorf("%s: what was written does not load:\n%v\n%s", file, err, written)
			continue
		}
		same := cmp.Options{
			cmpopts.IgnoreUnexported(config.Config{}, config.Route{}, config.Listener{},
				config.Upstream{}, config.Redis{}, config.CacheMemory{}),
			cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(config.Admin{}, "Token"), cmpopts.IgnoreFields(config.Redis{}, "Password"),
		}
		if diff := cmp.Diff(cfg, again, same); diff != "" {
			t.Errorf("%s: (-loaded +again)\n%s", file, diff)
		}
	}
}

// A hash of what is written is the configuration's version: it must not change by itself.
func TestTheYAMLOfAConfigurationIsPinned(t *testing.T) {
	setEnvironment(t)
	cfg, err := config.Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/full-written.yaml", cfg.YAML())
}

func TestTheYAMLOfAConfigurationHidesSecrets(t *testing.T) {
	cfg := parse(t, "listeners: [{address: \":1\"}]\nadmin: {address: \":2\", token: s3cr3t}")
	if text := string(cfg.YAML()); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "[redacted]") {
		t.Error(text)
	}
}

func TestDefaultsArePinned(t *testing.T) {
	golden(t, "testdata/defaults.yaml", config.Defaults())
	parse(t, string(config.Defaults()))
}

func TestTheReferenceInTheDocsIsUpToDate(t *testing.T) {
	golden(t, "../../docs/config.md", []byte(config.Reference()))
}
