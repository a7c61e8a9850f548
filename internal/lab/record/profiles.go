package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/plainfile"
)

// maxProfile is the largest profile, in bytes.
const maxProfile = 32 << 20

// Profile reads the profile of a kind ("cpu") that was taken in a step. Its content is unchecked.
// It has at most 32 MB. If there is none, the error is fs.ErrNotExist. Any goroutine may call it.
func (r *Run) Profile(step int, kind string) ([]byte, error) {
	if step < 0 || step >= maxSteps {
		return nil, fmt.Errorf("a step's number is 0 to %d, and not %d", maxSteps-1, step)
	}
	if !validKind(kind) {
		return nil, fmt.Errorf("a kind of profile is a name of small letters, and not %q", kind)
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read as a run directory: %w", r.Dir, disk.Cause(err))
	}
	defer root.Close()
	s := &source{dir: r.Dir, root: root}
	name := filepath.Join(stepDir(step), kind+profileSuffix)
	f, err := s.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("step %d of %s has no profile %s: %w",
			step, r.Dir, kind, fs.ErrNotExist)
	}
	if err != nil {
		return nil, s.unreadable(name, err)
	}
	defer f.Close()
	content, err := plainfile.ReadAll(f, maxProfile)
	switch {
	case errors.Is(err, plainfile.ErrSize):
		return nil, s.damaged(name, 0, fmt.Errorf("it is larger than %d MiB", maxProfile>>20))
	case err != nil:
		return nil, s.unreadable(name, err)
	}
	return content, nil
}

// validKind reports whether a kind may name a file.
func validKind(kind string) bool {
	for _, c := range []byte(kind) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return len(kind) > 0 && len(kind) <= 32
}

// checkProfiles refuses profiles that a reader would refuse.
func checkProfiles(s *measure.Step) error {
	for kind, profile := range s.Profiles {
		switch {
		case !validKind(kind):
			return fmt.Errorf("step %d has a profile of the kind %q, and a kind is a name "+
				"of small letters", s.Plan.Number, kind)
		case len(profile) > maxProfile:
			return fmt.Errorf("step %d has a %s profile of %d bytes, and a run directory takes %d",
				s.Plan.Number, kind, len(profile), maxProfile)
		}
	}
	return nil
}
