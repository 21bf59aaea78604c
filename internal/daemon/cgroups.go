package daemon

import (
	"path/filepath"

	"weir/policy"
)

// Cgroup returns the folder of the cgroup that a selector of kind cgroup, unit or host stands for now; missing says in words
// what is not there.
func (e *Engine) Cgroup(s policy.Selector) (path, missing string, err error) {
	look := &binder{root: e.CgroupRoot}
	bound, err := look.bind(s)
	if err != nil || bound.Missing != "" {
		return "", bound.Missing, err
	}
	switch s.Kind {
	case policy.Unit:
		return look.units[s.Text], "", nil
	case policy.Cgroup:
		return filepath.Join(e.CgroupRoot, s.Text), "", nil
	}
	return e.CgroupRoot, "", nil
}
