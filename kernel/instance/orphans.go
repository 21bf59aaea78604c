// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"weir/kernel/netns"
)

var labNamespace = regexp.MustCompile(`^weir-[0-9a-f]{6}-`)

// SweepOrphans removes the namespaces and cgroups of labs with a missing directory, and returns
// their names. It removes only objects that are older than age and have no directory in [Root], no
// process and, for namespaces, no open handle. An owner has handles to all its namespaces and a
// process in each cgroup, even with another run directory.
func SweepOrphans(age time.Duration) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	namespaces, err := sweepOrphans("weir-", age)
	groups, groupsErr := sweepOrphanCgroups(age)
	return append(namespaces, groups...), errors.Join(err, groupsErr)
}

func sweepOrphans(prefix string, age time.Duration) ([]string, error) {
	names, err := netns.List(prefix)
	if err != nil {
		return nil, err
	}
	held, err := heldNamespaces()
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, name := range names {
		if !labNamespace.MatchString(name) || !orphan(name, age, held) {
			continue
		}
		if err := netns.Remove(name); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

func orphan(name string, age time.Duration, held map[string]bool) bool {
	id := strings.Split(name, "-")[1]
	if _, err := os.Stat(filepath.Join(Root(), id)); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	ns, err := netns.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = ns.Close() }()
	info, err := os.Stat(netns.Path(name))
	if err != nil || time.Since(info.ModTime()) < age {
		return false
	}
	inode, err := ns.Inode()
	return err == nil && !held[netns.Path(name)] && !held[fmt.Sprintf("net:[%d]", inode)]
}

// heldNamespaces returns the network namespaces of processes and of open handles, by their names in
// /proc.
func heldNamespaces() (map[string]bool, error) {
	held := map[string]bool{}
	for _, pattern := range []string{"/proc/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"} {
		links, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("list open namespaces: %w", err)
		}
		for _, link := range links {
			target, err := os.Readlink(link)
			if err != nil {
				continue // ended or closed meanwhile
			}
			if strings.HasPrefix(target, netns.Dir+"/") || strings.HasPrefix(target, "net:[") {
				held[target] = true
			}
		}
	}
	return held, nil
}
