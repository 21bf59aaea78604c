package daemon

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"weir/policy"
)

// folders lists where cgroups of these scopes may come and go: the folders on the way to every cgroup that is named, and
// for units all slices and the managers of users, where systemd makes units' cgroups.
func folders(root string, scopes []policy.Scope) []string {
	found := map[string]bool{}
	units := false
	for _, s := range scopes {
		switch s.Applies.Kind {
		case policy.Cgroup:
			for path := filepath.Dir(filepath.Clean(s.Applies.Text)); ; path = filepath.Dir(path) {
				found[filepath.Join(root, path)] = true
				if path == "/" || path == "." {
					break
				}
			}
		case policy.Unit:
			units = true
		}
	}
	if units {
		found[root] = true
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() || path == root {
				return nil // what goes away while it is looked at
			}
			if !strings.HasSuffix(entry.Name(), ".slice") && !strings.HasPrefix(entry.Name(), "user@") {
				return filepath.SkipDir
			}
			found[path] = true
			return nil
		})
	}
	all := make([]string, 0, len(found))
	for path := range found {
		all = append(all, path)
	}
	slices.Sort(all) // a folder before those in it, so that none comes unseen in between
	return all
}
