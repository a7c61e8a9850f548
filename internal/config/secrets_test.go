//go:build !race

package config_test

import (
	"strings"
	"testing"

	"plimsoll/internal/config"
)

// withSecrets holds hunter2 in every string that may hold anything, by way of the environment.
const withSecrets = `
listeners: [{address: "127.0.0.1:8080"}]
upstreams:
  u:
    targets: ["127.0.0.1:9001", "${TEST_SECRET}.example:9002", {address: "${TEST_SECRET}.example:9003"}]
    balance: {hash: "header:${TEST_SECRET}"}
    health: {active: {path: "/health/${TEST_SECRET}", host: "${TEST_SECRET}", deep_path: "/deep/${TEST_SECRET}"}}
routes:
  - match: /a/${TEST_SECRET}
    upstream: u
    rewrite: "/x/${TEST_SECRET}/${client_address}"
    request_headers: &headers
      set: {X-Backend-Pwd: "${TEST_SECRET}", X-Plain: "a ${TEST_SECRET}", Authorization: "Bearer ${TEST_SECRET}"}
      add: {X-More: "${TEST_SECRET:-none}"}
    response_headers: {<<: *headers, remove: ["X-${TEST_SECRET}"]}
    when: {query: {q: "${TEST_SECRET}"}}
  - {match: /b, redirect: {to: "https://example.com/${TEST_SECRET}?to=${path}"}}
  - {match: /c, respond: {body: "say ${TEST_SECRET} $${host}", headers: {X-Said: "${TEST_SECRET}"}}}
admin: {address: "127.0.0.1:9900", token: "${TEST_SECRET}"}
`

func TestWhatTheEnvironmentGaveIsShownByItsName(t *testing.T) {
	t.Setenv("TEST_SECRET", "hunter2")
	cfg := parse(t, withSecrets)
	text := string(cfg.YAML())
	if strings.Contains(text, "hunter2") {
		t.Errorf("a value of the environment is shown:\n%s", text)
	}
	for _, want := range []string{
		`targets:`, `address: "${TEST_SECRET}.example:9002"`, `address: "${TEST_SECRET}.example:9003"`, `hash: "header:${TEST_SECRET}"`,
		`path: "/health/${TEST_SECRET}"`, `deep_path: "/deep/${TEST_SECRET}"`, `host: "${TEST_SECRET}"`,
		`name: "/a/$${TEST_SECRET}"`, `match: "/a/${TEST_SECRET}"`, `rewrite: "/x/${TEST_SECRET}/${client_address}"`,
		`X-Backend-Pwd: "${TEST_SECRET}"`, `X-Plain: "a ${TEST_SECRET}"`, `Authorization: "Bearer ${TEST_SECRET}"`,
		`X-More: "${TEST_SECRET:-none}"`, `remove: ["X-${TEST_SECRET}"]`, `q: "${TEST_SECRET}"`,
		`to: "https://example.com/${TEST_SECRET}?to=${path}"`, `body: "say ${TEST_SECRET} $${host}"`, `X-Said: "${TEST_SECRET}"`,
		`token: "${TEST_SECRET}"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Count(text, `X-Plain: "a ${TEST_SECRET}"`) != 2 {
		t.Errorf("headers that were merged are not shown by their reference:\n%s", text)
	}
	if match, to := cfg.Shown(0); match != "/a/${TEST_SECRET}" || to != "" {
		t.Errorf("of the first route %q and %q are shown", match, to)
	}
	if _, to := cfg.Shown(1); to != "https://example.com/${TEST_SECRET}?to=${path}" {
		t.Errorf("of the redirect %q is shown", to)
	}
	if name := cfg.Routes[0].Name; name != "/a/${TEST_SECRET}" {
		t.Errorf("the first route is called %q", name)
	}
	again := parse(t, text)
	if r := again.Routes[0]; r.Match != "/a/hunter2" || r.Rewrite != "/x/hunter2/${client_address}" || again.Admin.Token != "hunter2" {
		t.Errorf("what was written means %q, %q and %q when it is loaded again", r.Match, r.Rewrite, again.Admin.Token)
	}
	if body := again.Routes[2].Respond.Body; body != "say hunter2 ${host}" {
		t.Errorf("what was written means the body %q when it is loaded again", body)
	}
}

// What stands in the file itself is found by the names that give it away, wherever it stands.
func TestSecretsInTheFileAreFoundByTheirNames(t *testing.T) {
	t.Setenv("TEST_USER", "joe")
	for _, c := range []struct{ routes, shown string }{
		{`{match: /a, redirect: {to: "https://h/?a=b&access_token=hunter2&c=d"}}`, `to: "https://h/?a=b&access_token=redacted&c=d"`},
		{`{match: /a, redirect: {to: "https://joe:hunter2@h/x"}}`, `to: "https://redacted@h/x"`},
		{`{match: /a, redirect: {to: "https://h/?sig=hunter2#x"}}`, `to: "https://h/?sig=redacted#x"`},
		{`{match: /a, redirect: {to: "https://h/?design=old&key=hunter2"}}`, `to: "https://h/?design=old&key=redacted"`},
		{`{match: /a, redirect: {to: "https://h/?token=${query}"}}`, `to: "https://h/?token=${query}"`},
		{`{match: /a, redirect: {to: "https://h/?token=${TEST_USER:-hunter2}"}}`, `to: "https://h/?token=redacted"`},
		{`{match: /a, respond: {body: '{"password": "hunter2 and", "user": "joe"}'}}`, `"{\"password\": \"redacted\", \"user\": \"joe\"}"`},
		{`{match: /a, respond: {body: "use Bearer hunter2hunter2 now"}}`, `body: "use Bearer redacted now"`},
		{`{match: /a, respond: {body: "Authorization: Basic hunter2"}}`, `body: "Authorization: redacted"`},
		{`{match: /a, respond: {headers: {X-Backend-Pwd: hunter2}}}`, `X-Backend-Pwd: "[redacted]"`},
		{`{match: /a, respond: {headers: {X-Sig: hunter2}}}`, `X-Sig: "[redacted]"`},
		{`{match: /a, respond: {headers: {X-Pass: "${TEST_USER}:hunter2"}}}`, `X-Pass: "[redacted]"`},
		{`{match: /a, respond: {headers: {X-Pass: "Basic ${TEST_USER}"}}}`, `X-Pass: "Basic ${TEST_USER}"`},
		{`{match: /a, respond: {headers: {X-Pass: "$${TEST_USER}"}}}`, `X-Pass: "[redacted]"`},
		{`{match: /a, when: {query: {apikey: hunter2}}, respond: {}}`, `apikey: "[redacted]"`},
		{`{match: /a, respond: {headers: {X-Design: "a b", Link: "</x>; rel=next"}}}`, `X-Design: "a b"`},
		{`{match: /token/x, respond: {}}`, `match: /token/x`},
	} {
		cfg := parse(t, "listeners: [{address: \":1\"}]\nroutes: ["+c.routes+"]")
		text := string(cfg.YAML())
		if strings.Contains(text, "hunter2") || !strings.Contains(text, c.shown) {
			t.Errorf("%s: no %s, or the secret, in\n%s", c.routes, c.shown, text)
		}
		if _, err := config.Parse("again", []byte(text), "testdata/good"); err != nil {
			t.Errorf("%s: what is shown does not load: %v", c.routes, err)
		}
	}
	cfg := parse(t, `
listeners: [{address: ":1"}]
upstreams: {auth: {targets: ["auth:9001", "token-service:80"], health: {active: {path: "/h?pwd=hunter2"}}}}
`)
	text := string(cfg.YAML())
	for _, want := range []string{"auth:9001", "token-service:80", `path: "/h?pwd=redacted"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestErrorsDoNotTellWhatTheEnvironmentGave(t *testing.T) {
	long := strings.Repeat("hunter2", 20)
	for _, c := range []struct{ value, text, want string }{
		{"hunter2", "listeners: [{address: \":1\"}]\nroutes: [{match: /, upstream: \"${TEST_SECRET}\"}]", "${TEST_SECRET}"},
		{"hunter2", "listeners: [{address: \"${TEST_SECRET}:x\"}]", ""},
		{"hunter\"2", "listeners: [{address: \":1\", limits: {head_timeout: \"${TEST_SECRET}\"}}]", "${TEST_SECRET}"},
		{long, "listeners: [{address: \":1\", limits: {head_timeout: \"${TEST_SECRET}\"}}]", "${TEST_SECRET}"},
		{long, "listeners: [{address: \":1\"}]\nroutes: [{match: /, upstream: \"users-${TEST_SECRET}\"}]", "users-${TEST_SECRET}…"},
	} {
		t.Setenv("TEST_SECRET", c.value)
		_, err := config.Parse("test.yaml", []byte(c.text), ".")
		if err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
