// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/daemon"
	"weir/core/engine"
	"weir/core/policy"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/modules"
)

const (
	policyScopes  = 10_000
	policyCgroups = 100 // existing ones; the other cgroup scopes wait for theirs
)

// policyText is a policy of n scopes: cgroups, remote prefixes and users in turn, each with both
// directions.
func policyText(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nscopes:\n")
	for i := range n {
		selector := [...]string{"cgroup: /tenant-%d", "prefix: 2001:db8:%x::/48", "user: %d"}[i%3]
		fmt.Fprintf(&b, "  scope-%d:\n    "+selector+"\n    egress: 200Mbit\n    ingress: {rate: 500Mbit, mark: 3ms, drop: 12ms}\n", i, i)
	}
	return []byte(b.String())
}

// policyEngine has its own folders, bpf file system and cgroups, and does not touch open sockets.
func policyEngine(b *testing.B) *engine.Engine {
	b.Helper()
	pins, root := testutil.BPFFS(b), testutil.Cgroup(b)
	for i := range policyCgroups {
		must(b, os.Mkdir(filepath.Join(root.Path, fmt.Sprintf("tenant-%d", 3*i)), 0o755))
	}
	language, err := modules.Language(modules.All())
	must(b, err)
	return &engine.Engine{Modules: modules.All(), Language: language, StateDir: b.TempDir(), PinDir: filepath.Join(pins, "weir"), CgroupRoot: root.Path,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
}

// BenchmarkPolicy takes a policy of 10,000 scopes from text to release; "again" applies the same
// policy a second time, and "edit" one with ten different rates.
func BenchmarkPolicy(b *testing.B) {
	text := policyText(policyScopes)
	edited := []byte(strings.Replace(string(text), "200Mbit", "201Mbit", 10))
	total := map[string]time.Duration{}
	var memory uint64
	for range b.N {
		engine := policyEngine(b)
		step := func(name string, do func() error) {
			start := time.Now()
			must(b, do())
			total[name] += time.Since(start)
		}
		var p, other *policy.Policy
		apply := func(p *policy.Policy, change bool) error {
			out, err := engine.Apply(p)
			if err == nil && (out.Changed != change || len(out.Steps) != policyScopes) {
				err = fmt.Errorf("changed %t, %d steps", out.Changed, len(out.Steps))
			}
			return err
		}
		step("parse", func() (err error) { p, err = engine.Language.Parse("policy.yaml", text); return err })
		step("plan", func() error { _, err := engine.Plan(p); return err })
		step("apply", func() error { return apply(p, true) })
		step("again", func() error { return apply(p, false) })
		other, err := engine.Language.Parse("policy.yaml", edited)
		must(b, err)
		step("edit", func() error { return apply(other, true) })
		step("status", func() error { _, err := engine.Status(); return err })
		step("metrics", func() error { return daemon.WriteMetrics(engine, io.Discard) })
		memory = mapMemory(b, filepath.Join(engine.PinDir, "limit"))
		step("release", func() error { _, err := engine.Release(); return err })
	}
	for name, d := range total {
		b.ReportMetric(d.Seconds()*1e3/float64(b.N), name+"-ms")
	}
	b.ReportMetric(float64(memory)/(1<<20), "maps-MiB")
	b.ReportMetric(0, "ns/op")
}

// mapMemory returns the kernel's account of the maps pinned in a folder, in bytes.
func mapMemory(b *testing.B, dir string) (sum uint64) {
	b.Helper()
	entries, err := os.ReadDir(dir)
	must(b, err)
	for _, entry := range entries {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, entry.Name()), nil)
		if err != nil {
			continue // a link or a program
		}
		info, err := m.Info()
		must(b, err)
		octets, known := info.Memlock()
		if !known {
			b.Fatalf("the kernel does not say what the map %s takes", entry.Name())
		}
		sum += octets
		must(b, m.Close())
	}
	return sum
}
