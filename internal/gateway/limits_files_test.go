package gateway

import (
	"fmt"
	"testing"
)

// What files keep open is not promised to clients too.
func TestOpenFilesComeOutOfTheClientsDescriptors(t *testing.T) {
	for _, c := range []struct {
		allowed, files, clients int
		enough                  bool
	}{
		{65536, 0, 57344, true},
		{65536, 1024, 56320, true},
		{65536, 28672, 28672, true},
		{65536, 1_000_000, 28672, false},
		{1024, 1024, 448, false},
	} {
		limit := limitOf(c.allowed)
		if clients, enough := limit.clientsBeside(c.files); clients != c.clients || enough != c.enough {
			t.Errorf("%d descriptors and %d files: %d clients, enough: %v", c.allowed, c.files, clients, enough)
		}
	}
}

// A reload with more open files leaves fewer descriptors to clients.
func TestAReloadChangesTheClientsDescriptors(t *testing.T) {
	t.Parallel()
	const routes = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: "GET /", files: {root: %q, open_files: %d}}]
`
	root := t.TempDir()
	g := serve(t, fmt.Sprintf(routes, root, 10))
	before := g.shared.MaxClients.Load()
	if want := int64(g.limit.clients - 10); before != want {
		t.Errorf("%d clients, want %d", before, want)
	}
	g.reload(fmt.Sprintf(routes, root, 110))
	if after := g.shared.MaxClients.Load(); after != before-100 {
		t.Errorf("%d clients after the reload, want %d", after, before-100)
	}
}
