// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"context"
	"errors"
	"fmt"

	"weir/core/module"
	"weir/modules/offload/flower"
	"weir/modules/offload/xdp"
)

// Size of an inspection: random addresses beside all boundaries, and packets for the program.
const (
	inspectRandom  = 100_000
	inspectPackets = 10_000
)

// Inspect compares the active fast path with the kernel's routing, like weir offload verify.
func (p *hostPlane) Inspect(_ context.Context, have module.State, seed uint64) ([]module.Inspection, error) {
	t := treatmentOf(have)
	if t == nil {
		return nil, nil
	}
	v, err := Verification{Namespace: p.ns, Pins: p.host.Pins, Treatment: t, Random: inspectRandom, Packets: inspectPackets, Seed: seed}.Run()
	out := module.Inspection{Check: forwarding, Promise: "packets are forwarded as by the kernel", Verdict: module.Holds}
	switch {
	case errors.Is(err, xdp.ErrNone), errors.Is(err, flower.ErrNone):
		out.Verdict, out.Reason = module.Fails, "no fast path is active: run weir apply"
		return []module.Inspection{out}, nil
	case err != nil:
		return nil, err
	}
	doc := v.Document()
	out.Looked = fmt.Sprintf("%d addresses, %d of them forwarded; %d packets, %d of them forwarded", v.Addresses, v.Forwarded, v.Packets, v.Sent)
	out.Examples = doc.Differences
	switch {
	case v.Expired:
		out.Verdict, out.Reason = module.CannotSay, "the lease has expired without a daemon, so the kernel forwards all packets: run weir daemon"
	case !v.Holds():
		out.Verdict, out.Reason = module.Fails, "the fast path forwards packets differently from the kernel, or leaves offloadable packets to it"
	case v.Forwarded == 0:
		out.Verdict, out.Reason = module.CannotSay, "nothing is forwarded: weir offload plan shows the reasons"
	}
	return []module.Inspection{out}, nil
}

const forwarding = "forwarding"

// Judges documents the inspection.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: forwarding, Of: "the fast path", Looks: fmt.Sprintf("%d random addresses, all boundaries of prefixes, and %d test runs of the program", inspectRandom, inspectPackets),
		Holds: "each decision is that of the kernel"}}
}
