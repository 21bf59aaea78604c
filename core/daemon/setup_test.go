// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weir/core/engine"
	"weir/core/policy"
	"weir/internal/child"
	"weir/internal/units"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/modules"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"follow": followPart, "send": sendPart})
	os.Exit(m.Run())
}

// setup returns an engine with folders, a BPF file system and a cgroup of the test's own.
func setup(t *testing.T) *engine.Engine {
	t.Helper()
	return engineAt(t.TempDir(), filepath.Join(testutil.BPFFS(t), "weir"), testutil.Cgroup(t).Path)
}

// engineAt returns an engine that leaves the open sockets of the machine unchanged.
func engineAt(state, pins, root string) *engine.Engine {
	return &engine.Engine{Modules: modules.All(), Language: language, StateDir: state, PinDir: pins, CgroupRoot: root,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
}

// language is the policy language of all modules.
var language = func() *policy.Language {
	all, err := modules.Language(modules.All())
	if err != nil {
		panic(err)
	}
	return all
}()

// limited returns a scope of cgroup /name with an egress limit.
func limited(name string, rate units.BitRate) policy.Scope {
	p, err := language.Parse("scope", fmt.Appendf(nil, "version: 1\nscopes: {%s: {cgroup: /%s, egress: {rate: %dbit, mode: police}}}\n", name, name, rate))
	if err != nil {
		panic(err)
	}
	return p.Scopes[0]
}

// apply applies scopes and fails the test on an error.
func apply(t *testing.T, e *engine.Engine, scopes ...policy.Scope) {
	t.Helper()
	if _, err := e.Apply(&policy.Policy{Scopes: scopes}); err != nil {
		t.Fatal(err)
	}
}

// states returns the state of every active scope.
func states(t *testing.T, e *engine.Engine) map[string]string {
	t.Helper()
	status, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range status.Scopes {
		all[s.Name] = s.State
	}
	return all
}
