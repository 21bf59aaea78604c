package testutil

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// absent is what each test kernel is known to lack, measured under the kernels that testkernel/build makes (Linux 7.2). All
// other features that a test names are there, and a probe that says otherwise is wrong.
var absent = map[string]string{
	"uml": "hfsc jit sk_storage-updates struct_ops tracing fentry kprobe tracepoint raw_tracepoint sch_bpf seccomp cpu-affinity speed",
	"x86": "hfsc seccomp speed",
}

// Need skips a test for a named feature that a probe found missing (err says why), and fails where the kernel is known to have it.
func Need(t testing.TB, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if kernel := os.Getenv("TEST_KERNEL"); kernel != "" && !KnownAbsent(kernel, feature) {
		t.Fatalf("the %s test kernel is known to have %s, and the probe says: %v", kernel, feature, err)
	}
	t.Skipf("needs %s: %v", feature, err)
}

// KnownAbsent says whether the test kernel lacks the feature; see testkernel/README.md.
func KnownAbsent(kernel, feature string) bool {
	return slices.Contains(strings.Fields(absent[kernel]), feature)
}
