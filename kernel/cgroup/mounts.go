// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// Mounts holds the visible mount points of the cgroup hierarchies v1 and v2. It omits mount points
// covered by another mount.
func Mounts() (v1, v2 []string, err error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, nil, fmt.Errorf("find control groups: %w", err)
	}
	defer func() { _ = file.Close() }()
	v1, v2 = mounts(file)
	return v1, v2, nil
}

// mount is one line of mountinfo.
type mount struct{ id, parent, place, kind string }

// mounts reads lines such as
//
//	36 35 98:0 /root /mount/point options... - type source super-options
func mounts(info io.Reader) (v1, v2 []string) {
	var all []mount
	byID := map[string]mount{}
	for scanner := bufio.NewScanner(info); scanner.Scan(); {
		before, after, found := strings.Cut(scanner.Text(), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 5 || len(kind) < 1 {
			continue
		}
		m := mount{place[0], place[1], place[4], kind[0]}
		all, byID[m.id] = append(all, m), m
	}
	for _, m := range all {
		switch {
		case m.kind != "cgroup" && m.kind != "cgroup2" || hidden(m, all, byID):
		case m.kind == "cgroup2":
			v2 = append(v2, m.place)
		default:
			v1 = append(v1, m.place)
		}
	}
	return v1, v2
}

// hidden reports whether another mount covers a mount or one of its parents. The order of the lines
// is no indication: a moved root is listed late.
func hidden(m mount, all []mount, byID map[string]mount) bool {
	for depth, on, above := 0, m, m; depth < len(all); depth++ {
		for _, other := range all {
			if other.parent == on.id && other.id != above.id && (on.id != m.id || other.place == m.place) && covers(other.place, above.place) {
				return true
			}
		}
		parent, known := byID[on.parent]
		if !known {
			return false
		}
		on, above = parent, on
	}
	return false
}

func covers(place, path string) bool {
	return path == place || strings.HasPrefix(path, strings.TrimSuffix(place, "/")+"/")
}
