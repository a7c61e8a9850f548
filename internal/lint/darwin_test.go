package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// listed is what go list says of a package, or of one as a test changes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // paths of imports that are others in the source
	Module          *struct{ Version, GoVersion string }
	Error           *struct{ Err string }
}

// own says whether the package belongs to the project.
func (p *listed) own() bool {
	return p.ImportPath == "plimsoll" || strings.HasPrefix(p.ImportPath, "plimsoll/")
}

// version is that of the package's module; empty for the standard library and the project.
func (p *listed) version() string {
	if p.Module == nil || p.own() {
		return ""
	}
	return p.Module.Version
}

// world is the packages of a platform, by their import paths.
type world struct {
	set  *token.FileSet
	done map[string]checked
}

// checked is a package whose types were checked, of a version of its module.
type checked struct {
	types   *types.Package
	version string
}

// importing finds what one package imports.
type importing struct {
	*world
	renamed map[string]string
}

func (i importing) Import(path string) (*types.Package, error) {
	if to, ok := i.renamed[path]; ok {
		path = to
	}
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i.done[path].types; p != nil {
		return p, nil
	}
	return nil, errors.New("go list does not name " + path)
}

// check looks at the types of a package, whose imports it has seen, and gives all errors. Of those
// of others only the declarations are looked at.
func (w *world) check(p *listed) (wrong []error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(w.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			wrong = append(wrong, err)
		}
		files = append(files, f)
	}
	c := types.Config{
		Importer: importing{w, p.ImportMap}, Sizes: types.SizesFor("gc", "arm64"),
		IgnoreFuncBodies: !p.own(), FakeImportC: true, Error: func(err error) { wrong = append(wrong, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	pkg, _ := c.Check(path, w.set, files, nil)
	w.done[p.ImportPath] = checked{pkg, p.version()}
	return wrong
}

// apart are folders with modules of their own: they need much that nothing else does, and make test
// only checks their types. What they share with the project must have the same version: run go mod tidy
// there, too, when go.mod changes.
var apart = []string{"../../examples/experiments/servers/gin"}

// People develop on Macs. That everything compiles there, tests too, is seen from the sources: to
// compile it takes minutes.
func TestItCompilesForDarwin(t *testing.T) {
	// Nearly all that is read is kept, so a collection finds little garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	w := &world{token.NewFileSet(), map[string]checked{}}
	if own := w.look(t, "../.."); own < 50 {
		t.Errorf("%d packages of the project were seen", own)
	}
	for _, dir := range apart {
		if own := w.look(t, dir); own == 0 {
			t.Errorf("no package was seen in %s", dir)
		}
	}
}

// look checks all packages of the module in a folder, and all that they import. It says how many of
// the project it had not seen before.
func (w *world) look(t *testing.T, dir string) (own int) {
	// With the profile of cmd/plimsoll, each package would be listed twice.
	list := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-deps", "-test",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Dir = dir
	list.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list in %s, where go mod tidy may be due: %v\n%s", dir, err, &said)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return own
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the main package of a test is not there yet
		}
		if had, ok := w.done[p.ImportPath]; ok {
			if had.version != p.version() {
				t.Errorf("%s is %s in %s, and %s in the project", p.ImportPath, p.version(), dir, had.version)
			}
			continue
		}
		for _, err := range w.check(&p) {
			t.Error(err)
		}
		if p.own() {
			own++
		}
	}
}
