// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// The file with the JIT's state exists only in the first network namespace.
func TestTheJITIsFoundInANetworkNamespace(t *testing.T) {
	if err := probe.JIT(); err != nil {
		t.Logf("outside: %v", err)
		return // there is none to find
	}
	if err := testutil.Namespace(t, "jit").Do(probe.JIT); err != nil {
		t.Error(err)
	}
}
