// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/core/match"
	"weir/core/policy"
	"weir/kernel/cgroup"
)

// cgroups match by path below the mount point, including descendants.
var cgroups = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "cgroup", Doc: "Sockets of a cgroup and its descendants, by the path below the mount point of the cgroup v2 hierarchy, such as /a/b.", Sample: "",
		Parse: parseCgroup, Enclosing: cgroupsAbove,
	},
	Bind: func(h *Host, text string) (Binding, error) { return bindCgroup(filepath.Join(h.CgroupRoot, text)) },
	Watch: func(h *Host, texts []string) (folders []string) {
		for _, text := range texts {
			for at := filepath.Dir(text); ; at = filepath.Dir(at) {
				folders = append(folders, filepath.Join(h.CgroupRoot, at))
				if at == "/" {
					break
				}
			}
		}
		return folders
	},
	Near: nearCgroup,
	Inside: func(h *Host, text string) (Inside, string, error) {
		return insideCgroup(filepath.Join(h.CgroupRoot, text), "cgroup")
	},
}

func parseCgroup(text string) (canonical, words string, err error) {
	if slices.Contains(strings.Split(text, "/"), "..") {
		return "", "", fmt.Errorf("%q contains \"..\": write the path from the mount point down", text)
	}
	canonical = path.Clean("/" + text)
	if canonical == "/" {
		return "", "", errors.New("the root cgroup is the whole host: write host: true")
	}
	return canonical, "cgroup " + canonical, nil
}

func cgroupsAbove(text string) (all []string) {
	for at := path.Dir(text); at != "/" && at != "."; at = path.Dir(at) {
		all = append(all, at)
	}
	return all
}

func bindCgroup(folder string) (Binding, error) {
	below := cgroup.Below(folder)
	id, err := cgroup.Cgroup{Path: folder}.ID()
	if errors.Is(err, fs.ErrNotExist) {
		return Binding{Path: below, Missing: "there is no cgroup " + folder}, nil
	}
	if err != nil {
		return Binding{}, err
	}
	return Binding{Key: match.OfCgroup(id), Path: below}, nil
}

func insideCgroup(folder, by string) (Inside, string, error) {
	bound, err := bindCgroup(folder)
	return Inside{Cgroup: folder, By: by}, bound.Missing, err
}

// nearCgroup follows the path to the first missing folder and suggests an existing one.
func nearCgroup(h *Host, text string) string {
	if below, whole := strings.CutPrefix(text, h.CgroupRoot+"/"); whole {
		return "/" + below // paths are below the mount point
	}
	for parent, rest := "/", strings.TrimPrefix(text, "/"); ; {
		name, below, _ := strings.Cut(rest, "/")
		next := path.Join(parent, name)
		if _, err := os.Stat(filepath.Join(h.CgroupRoot, next)); err == nil && below != "" {
			parent, rest = next, below
			continue
		}
		near := nearName(name, folderNames(filepath.Join(h.CgroupRoot, parent)))
		if near == "" {
			return ""
		}
		return path.Join(parent, near, below)
	}
}

func folderNames(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}
