// SPDX-License-Identifier: Apache-2.0

package police

import (
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
)

// maxVerified is above the instructions that the verifiers of Linux 6.1 to 7.2 process, and far
// below the 250,000 of a version with branches in at_least() and at_most().
const maxVerified = 150_000

// The verifier's time is most of the time before weir run starts its command.
func TestTheVerifierReadsFewInstructions(t *testing.T) {
	p := plane(t, 1)
	for _, program := range []*ebpf.Program{p.objects.LimitEgress, p.objects.LimitIngress} {
		info, err := program.Info()
		if err != nil {
			t.Fatal(err)
		}
		if n, known := info.VerifiedInstructions(); known && n > maxVerified {
			t.Errorf("%s: the verifier processed %d instructions, want at most %d", info.Name, n, maxVerified)
		}
	}
}

// Without the ingress program an ingress limit is an error, and egress is limited.
func TestADataPlaneForEgressAlone(t *testing.T) {
	testutil.NeedRoot(t)
	p, err := LoadEgress(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Set(0, Egress, Limit{Rate: 1e6}); err != nil {
		t.Error(err)
	}
	if err := p.Set(0, Ingress, Limit{Rate: 1e6}); err == nil {
		t.Error("an ingress limit was set without its program")
	}
	if p.objects.LimitIngress != nil || p.objects.LimitSockops == nil {
		t.Error("other programs are loaded than those of egress")
	}
}
