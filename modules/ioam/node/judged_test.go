// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/proof"
)

// side is a program of an interface with both roles or none, and the judge's ruling on it.
type side struct {
	name    string
	program *ebpf.Program
	judge   func(frame []byte) ruling
}

// TestVerdictsAreTheJudges runs random and mutated frames through the programs and the codec, and
// compares each result with the judge's. WEIR_TEST_PACKETS sets their number.
func TestVerdictsAreTheJudges(t *testing.T) {
	n := 20_000
	if text := os.Getenv("WEIR_TEST_PACKETS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	r := mutant{testutil.Rand(t)}
	profiles, err := proof.Profiles(3, r.Uint64)
	if err != nil {
		t.Fatal(err)
	}
	proven, exit := full, full
	proven.Proof = []proof.Profile{profiles[1], profiles[1]}
	exit.ID, exit.Remove, exit.Loopback = 124, true, true
	border := aNode(proven, exit)
	border.Interfaces[0].Ingress, border.Interfaces[0].Egress = false, false
	in, out := newBench(t, aNode(proven, exit)), newBench(t, border)
	j := &judge{border.Namespaces, map[string]uint64{}}
	sides := []side{
		{"egress, inside", in.objects.IoamEgress, func(frame []byte) ruling { return j.inside(frame, true) }},
		{"ingress, inside", in.objects.IoamIngress, func(frame []byte) ruling { return j.inside(frame, false) }},
		{"egress, outside", out.objects.IoamEgress, func(frame []byte) ruling { return j.outside(frame, true) }},
		{"ingress, outside", out.objects.IoamIngress, func(frame []byte) ruling { return j.outside(frame, false) }},
	}
	conn, err := rtnl.Open(in.ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetUp("lo"); err != nil { // for returned copies
		t.Fatal(err)
	}
	dropped := make([]int, len(sides))
	err = in.ns.Do(func() error {
		options := &ebpf.RunOptions{Context: skb{From: 1, Ifindex: 1}, Repeat: 1}
		module := make([]byte, 1<<16)
		for i := range n {
			frame, s := r.frame(), sides[i%len(sides)]
			checkCodec(t, frame)
			rule := s.judge(frame)
			options.Data, options.DataOut = frame, module
			verdict, err := s.program.Run(options)
			if err != nil {
				return fmt.Errorf("%s of %x: %w", s.name, frame, err)
			}
			if verdict == shot {
				dropped[i%len(sides)]++
			}
			if wrong := rule.differs(frame, verdict, options.DataOut); wrong != "" {
				return fmt.Errorf("packet %d, %s: %s\n%x became\n%x, want\n%x", i, s.name, wrong, frame, options.DataOut, rule.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sides {
		if share := dropped[i] * len(sides) * 100 / n; share < 10 || share > 95 {
			t.Errorf("%s: %d %% were dropped: the test tells nothing", s.name, share)
		}
	}
	checkCounts(t, j, in, out)
	if in.counted(ioamIoamCountIOAM_LOOPED) == 0 {
		t.Error("no copy was sent back")
	}
	t.Logf("%d packets; dropped %v; %v", n, dropped, j.counts)
}

// checkCounts compares the counters of the nodes with the judge's.
func checkCounts(t *testing.T, j *judge, nodes ...*bench) {
	t.Helper()
	for name, count := range map[string]ioamIoamCount{
		flawOption: ioamIoamCountIOAM_OPTION, flawPadding: ioamIoamCountIOAM_PADDING, flawShort: ioamIoamCountIOAM_SHORT, flawOdd: ioamIoamCountIOAM_ODD,
		flawAlignment: ioamIoamCountIOAM_ALIGNMENT, flawLength: ioamIoamCountIOAM_NODE_LENGTH, flawRemaining: ioamIoamCountIOAM_REMAINING,
		flawSequences: ioamIoamCountIOAM_SEQUENCES, flawFields: ioamIoamCountIOAM_FIELDS, flawMany: ioamIoamCountIOAM_MANY,
		"from_outside": ioamIoamCountIOAM_FROM_OUTSIDE, "to_outside": ioamIoamCountIOAM_TO_OUTSIDE, "recorded": ioamIoamCountIOAM_RECORDED,
		"overflow": ioamIoamCountIOAM_OVERFLOW, "full": ioamIoamCountIOAM_FULL, "removed": ioamIoamCountIOAM_REMOVED,
		"active": ioamIoamCountIOAM_ACTIVE, "terminated": ioamIoamCountIOAM_TERMINATED,
	} {
		var got uint64
		for _, b := range nodes {
			got += b.counted(count)
		}
		if got != j.counts[name] || got == 0 {
			t.Errorf("%s: %d were counted, the judge says %d", name, got, j.counts[name])
		}
	}
}

// differs describes the difference between a result and the ruling.
func (r *ruling) differs(frame []byte, verdict uint32, got []byte) string {
	if (verdict == shot) != r.drop || verdict != shot && verdict != unspec {
		return fmt.Sprintf("verdict %d, to be dropped: %t", int32(verdict), r.drop)
	}
	if r.drop || frame[ethernet+6] == 58 {
		return ""
	}
	if len(r.ended) > 0 {
		return r.remains(got)
	}
	for _, s := range r.sums {
		if sum := onesSum(got[s.from:min(s.to, len(got))]); sum != 0xffff {
			return fmt.Sprintf("the node's data sums up to %#x", sum)
		}
	}
	if len(got) == len(r.want) {
		for _, s := range r.loose {
			copy(r.want[s.from:s.to], got[s.from:s.to])
		}
	}
	if !bytes.Equal(got, r.want) {
		return "other octets"
	}
	return ""
}

func onesSum(octets []byte) (sum uint32) {
	for i := 0; i+1 < len(octets); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(octets[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// remains checks a frame with removed options: the remaining headers in order, each option
// unchanged and aligned as before.
func (r *ruling) remains(got []byte) string {
	list, flaw := extensions(got, false)
	want, headers := r.rest()
	if flaw != "" && len(list) < headers {
		return flaw
	}
	end, left, next := len(got)-len(r.want), atOptions, got[ethernet+6]
	var is [][]byte
	for _, e := range list[:min(headers, len(list))] { // another Hop-by-Hop header may now be first
		left, next = e.to, got[e.from]
		is = append(is, []byte{e.kind})
		if e.kind == 43 {
			is = append(is, got[e.from+1:e.to])
			continue
		}
		all, flaw := tlvs(got[e.from:e.to])
		if flaw != "" {
			return flaw
		}
		for _, o := range all {
			if !o.padding() {
				is = append(is, append([]byte{byte(o.at % 8)}, o.octets...))
			}
		}
	}
	old, _ := extensions(r.want, false)
	last := old[len(old)-1]
	payload := last.to
	stated := binary.BigEndian.Uint16(r.want[ethernet+4:]) + uint16(end)
	switch {
	case fmt.Sprint(is) != fmt.Sprint(want) || next != r.want[last.from]:
		return fmt.Sprintf("left is %x, want %x", is, want)
	case !bytes.Equal(got[left:], r.want[payload:]):
		return "the payload is another one"
	case binary.BigEndian.Uint16(got[ethernet+4:]) != stated || left-payload != end:
		return "the length is not what is left"
	case !bytes.Equal(got[:ethernet+4], r.want[:ethernet+4]) || !bytes.Equal(got[ethernet+7:atOptions], r.want[ethernet+7:atOptions]):
		return "the IPv6 header is another one"
	}
	return ""
}

// rest lists the remaining headers by type and content, and counts them.
func (r *ruling) rest() (want [][]byte, headers int) {
	list, _ := extensions(r.want, false)
	for _, e := range list {
		if e.kind == 43 {
			want = append(want, []byte{43}, r.want[e.from+1:e.to])
			headers++
			continue
		}
		all, _ := tlvs(r.want[e.from:e.to])
		kept := [][]byte{{e.kind}}
		for _, o := range all {
			ends := false
			for _, ended := range r.ended {
				ends = ends || ended.at == e.from+o.at
			}
			if !ends && !o.padding() {
				kept = append(kept, append([]byte{byte(o.at % 8)}, o.octets...))
			}
		}
		if len(kept) > 1 {
			want = append(want, kept...)
			headers++
		}
	}
	return want, headers
}

// checkCodec compares the codec's result for a frame with the judge's.
func checkCodec(t *testing.T, frame []byte) {
	t.Helper()
	list, _ := extensions(frame, true)
	for _, e := range list {
		if !e.hasOptions() {
			continue
		}
		header := frame[e.from:e.to]
		all, flaw := tlvs(header)
		var ioam []tlv
		for _, o := range all {
			if !o.ioam() {
				continue
			}
			if f := o.frameFlaw(); f != "" {
				flaw = f
				break
			}
			ioam = append(ioam, o)
		}
		h, err := codec.DecodeHeader(header)
		if reason(err) != flaw || err == nil && len(h.Options) != len(ioam) {
			t.Fatalf("%x: %v and %d options, want %q and %d", header, err, len(h.Options), flaw, len(ioam))
		}
		for i, o := range ioam[:min(len(ioam), len(h.Options))] {
			kind, data := o.octets[3], o.octets[4:]
			if got := h.Options[i]; got.Offset != o.at || byte(got.Type) != kind || !bytes.Equal(got.Data, data) {
				t.Fatalf("%x: option %d is %+v, want %x at %d", header, i, got, o.octets, o.at)
			}
			if want, got := bodyFlaw(kind, data), bodyReason(codec.OptionType(kind), data); kind <= 4 && got != want {
				t.Fatalf("option of type %d, %x: %q, want %q", kind, data, got, want)
			}
		}
	}
}

func reason(err error) string {
	var e *codec.Error
	if errors.As(err, &e) {
		return string(e.Reason)
	}
	return ""
}

// bodyReason returns the codec's mistake in the data of an option.
func bodyReason(kind codec.OptionType, data []byte) string {
	var err error
	switch kind {
	case codec.PreallocatedTrace, codec.IncrementalTrace:
		_, err = codec.CheckTrace(kind, data)
	case codec.ProofOfTransit:
		_, err = codec.DecodeProof(data)
	case codec.EdgeToEdge:
		_, err = codec.DecodeEdge(data)
	case codec.DirectExport:
		_, err = codec.DecodeExport(data)
	}
	return reason(err)
}
