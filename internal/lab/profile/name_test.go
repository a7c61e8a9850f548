package profile

import "testing"

func TestAPackageIsKnownByTheFolderWherePackagesAre(t *testing.T) {
	for file, want := range map[string]string{
		"/srv/node_modules/pino/lib/tools.js":                         "node_modules/pino",
		"/srv/node_modules/@pinojs/redact/index.js":                   "node_modules/@pinojs/redact",
		"/srv/node_modules/fastify/node_modules/pino/pino.js":         "node_modules/pino",
		"/usr/lib/python3/dist-packages/structlog/_base.py":           "site-packages/structlog",
		"/home/a/venv/lib/python3.11/site-packages/loguru/_logger.py": "site-packages/loguru",
		"/home/a/venv/lib/python3.11/site-packages/bottle.py":         "",
		"node_modules/pino/pino.js":                                   "node_modules/pino",
		"/srv/my_node_modules/pino/pino.js":                           "",
		"/srv/node_modules/@pinojs/redact.js":                         "",
		"/srv/node_modules/":                                          "",
		"/srv/shop/main.js":                                           "",
		"/go/pkg/mod/github.com/gin-gonic/gin@v1.10.0/context.go":     "",
		"": "",
	} {
		if got := packageOf(file); got != want {
			t.Errorf("%s is of %q, want %q", file, got, want)
		}
	}
}
