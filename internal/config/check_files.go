package config

import (
	"os"
	"strings"
)

func (f *Files) check(s *scope) {
	if s.good("root") {
		f.Root = s.relative(f.Root)
		info, err := os.Stat(f.Root)
		switch {
		case err != nil:
			s.reject("root", "the directory cannot be used: %v; make it, or name another", bare(err))
		case !info.IsDir():
			s.reject("root", "%q is not a directory; name the one that the files are in", clip(f.Root))
		}
	}
	if s.good("index") && (strings.ContainsAny(f.Index, "/\x00") || f.Index == "." || f.Index == "..") {
		s.reject("index", "%q is not the name of a file in a directory; write one such as "+
			"\"index.html\"", clip(f.Index))
	}
	if s.good("spa") && f.SPA && f.Index == "" {
		s.reject("spa", "there is no index to answer with; give index a name")
	}
	if s.good("cache_control") {
		s.fieldValue(s.at("cache_control"), f.CacheControl)
	}
	seen := map[string]bool{}
	s.items("precompressed", func(i int, at place) {
		if i < len(f.Precompressed) && seen[f.Precompressed[i]] {
			s.fail(at, "%s is in the list already; keep one", clip(f.Precompressed[i]))
		} else if i < len(f.Precompressed) {
			seen[f.Precompressed[i]] = true
		}
	})
}
