// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/core/policy"
	"weir/internal/fault"
	"weir/kernel/testutil"
)

// A state of another version is never half read: every command names the two ways out, and a
// release ends all that is pinned.
func TestTheStateOfAnotherVersionCanOnlyBeReleased(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	apply(t, e, limited("a", 100e6))
	path := filepath.Join(e.StateDir, "state.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	former := strings.Replace(string(text), formatState, "weir-state/2", 1)
	if former == string(text) {
		t.Fatalf("the state has no format: %s", text)
	}
	if err := os.WriteFile(path, []byte(former), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]func() error{
		"status": func() error { _, err := e.Status(); return err },
		"plan":   func() error { _, err := e.Plan(of()); return err },
		"apply":  func() error { _, err := e.Apply(of(limited("a", 1e6))); return err },
	} {
		err := command()
		if err == nil || !strings.Contains(err.Error(), `has the format "weir-state/2"`) || !strings.Contains(fault.Advice(err), "weir release") {
			t.Errorf("%s: %v, advice %q", name, err, fault.Advice(err))
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != former {
		t.Errorf("the state changed: %v", err)
	}
	if _, err := e.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(limitPins(e)); !os.IsNotExist(err) {
		t.Errorf("pins are left: %v", err)
	}
	if status, err := e.Status(); err != nil || len(status.Scopes) > 0 {
		t.Errorf("status %+v, %v", status, err)
	}
	apply(t, e, limited("a", 1e6))
	if _, err := e.Apply(&policy.Policy{}); err != nil {
		t.Error(err)
	}
}
