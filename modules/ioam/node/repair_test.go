// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// If any pin is missing, as after a kill, the data plane is not in place, and the next apply or
// release repairs it. The garbage collector is off, because it would close leaked files.
func TestWhatIsMissingIsRepaired(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c := newChain(t, 1500)
	c.domain(t, allFields)
	from, to := c.datagrams(t)
	pins, devices := c.planes["porthos"].host.Pins, c.planes["porthos"].host.Devices
	for _, missing := range []string{lastPin, "namespaces", "ingress", devices + "/*", "*"} {
		if !filepath.IsAbs(missing) {
			missing = filepath.Join(pins, missing)
		}
		paths, err := filepath.Glob(missing)
		if err != nil || len(paths) == 0 {
			t.Fatal(err, missing)
		}
		for _, path := range paths {
			if err := os.Remove(path); err != nil && filepath.Base(missing) != "*" {
				t.Fatal(err)
			}
		}
		state := c.states["porthos"]
		if in, err := c.planes["porthos"].InPlace(state); err != nil || in {
			t.Errorf("without %s: in place: %t, %v", missing, in, err)
		}
		if _, err := c.planes["porthos"].Apply(state, state); err != nil {
			t.Fatalf("without %s: %v", missing, err)
		}
		if in, err := c.planes["porthos"].InPlace(state); err != nil || !in {
			t.Errorf("without %s, applied again: in place: %t, %v", missing, in, err)
		}
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
		if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
			t.Fatalf("without %s: %v", missing, err)
		}
		if n := c.count(t, "porthos", "recorded"); n == 0 {
			t.Errorf("without %s, applied again: nothing is recorded", missing)
		}
	}
	if err := os.Remove(filepath.Join(pins, lastPin)); err != nil {
		t.Fatal(err)
	}
	if released, err := c.planes["porthos"].Release(); err != nil || !released {
		t.Errorf("released: %t, %v", released, err)
	}
	noPrograms(t, c.ns["porthos"])
}
