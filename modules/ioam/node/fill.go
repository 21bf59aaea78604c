// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/bpfmap"
	"weir/kernel/rtnl"
	"weir/modules/ioam/proof"
)

// MaxEncapsulations is the maximum number of different encapsulations of scopes.
const MaxEncapsulations = int(ioamIoamBoundsIOAM_ENCAPS)

// taiOffset returns the offset of TAI to UTC in ns; 0 if the kernel has none.
func taiOffset() (int64, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return 0, fmt.Errorf("read TAI offset: %w", err)
	}
	return int64(t.Tai) * 1e9, nil
}

var clocks = map[string]ioamIoamClock{"posix": ioamIoamClockIOAM_POSIX, "ptp": ioamIoamClockIOAM_PTP, "ntp": ioamIoamClockIOAM_NTP}

// setNode writes the settings; flagged is the rate of flagged packets in bytes per second and CPU.
// Before the first call the programs pass everything.
func (d *dataPlane) setNode(want Config, kinds, flagged uint32) error {
	offset, err := taiOffset()
	if err != nil {
		return err
	}
	var before ioamIoamSettings
	if err := d.objects.IoamNode.Lookup(uint32(0), &before); err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	s := ioamIoamSettings{Id: want.Node.ID, WideId: want.Node.Wide, Clock: uint32(clocks[want.Node.Clock]), TaiOffset: offset,
		Kinds: kinds, Filled: 1, Postcards: want.Node.Postcards, Flagged: flagged, Schema: want.Node.Schema(),
		Generation: max(before.Generation+1, 1)}
	if want.Removes() {
		s.Removes = 1
	}
	if want.loops() {
		s.Loops = 1
	}
	if want.Node.TraceContext {
		s.Contexts = 1
	}
	if want.Node.SocketContext {
		if s.Sockets = before.Sockets; s.Sockets == 0 { // enabled now: contexts stored earlier are invalid
			s.Sockets = s.Generation
		}
	}
	if want.Node.Address.IsValid() {
		s.Address = longs(want.Node.Address)
	}
	if err := d.objects.IoamNode.Put(uint32(0), s); err != nil {
		return fmt.Errorf("set node: %w", err)
	}
	return nil
}

// renew invalidates the caches of the programs.
func (d *dataPlane) renew() error {
	var s ioamIoamSettings
	if err := d.objects.IoamNode.Lookup(uint32(0), &s); err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	s.Generation++
	if err := d.objects.IoamNode.Put(uint32(0), s); err != nil {
		return fmt.Errorf("set node: %w", err)
	}
	return nil
}

// setNamespaces replaces the namespaces.
func (d *dataPlane) setNamespaces(want map[uint16]Namespace) error {
	for id, n := range want {
		if err := d.objects.IoamNamespaces.Put(uint32(id), n.entry()); err != nil {
			return fmt.Errorf("set namespace %d: %w", id, err)
		}
	}
	stays := func(key uint32) bool { _, stays := want[uint16(key)]; return stays }
	return errors.Join(prune(d.objects.IoamNamespaces, stays), d.setProofs(want))
}

// setProofs makes the windows of proofs. Sequence numbers start at the time in units of 64 ns, so
// that they increase over restarts of this node, and stay in existing windows.
func (d *dataPlane) setProofs(want map[uint16]Namespace) error {
	proven := func(key uint32) bool { return len(want[uint16(key>>1)].Proof) > 0 }
	for id, n := range want {
		if len(n.Proof) == 0 {
			continue
		}
		for odd := range uint32(2) {
			window := ioamIoamProofWindow{Sent: uint64(time.Now().UnixNano()) / 64}
			err := d.objects.IoamProofs.Update(uint32(id)<<1|odd, window, ebpf.UpdateNoExist)
			if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("set proofs of namespace %d: %w", id, err)
			}
		}
	}
	return prune(d.objects.IoamProofs, proven)
}

// prune deletes the entries with keys that do not stay.
func prune(m *ebpf.Map, stays func(uint32) bool) error {
	var gone []uint32
	var key uint32
	value := make([]byte, m.ValueSize())
	for all := m.Iterate(); all.Next(&key, &value); {
		if !stays(key) {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		if err := m.Delete(key); err != nil {
			return fmt.Errorf("delete entry %d: %w", key, err)
		}
	}
	return nil
}

func (n Namespace) entry() ioamIoamNamespace {
	e := ioamIoamNamespace{WideData: n.Wide, Data: n.Data, Schema: n.Schema, Opaque: uint32(len(n.State) / 4)}
	if n.Remove {
		e.Flags |= uint32(ioamIoamNamespaceFlagIOAM_REMOVE)
	}
	if n.Strict {
		e.Flags |= uint32(ioamIoamNamespaceFlagIOAM_STRICT)
	}
	if n.Loopback {
		e.Flags |= uint32(ioamIoamNamespaceFlagIOAM_LOOPBACK)
	}
	for i := range len(n.State) / 4 {
		e.State[i] = binary.NativeEndian.Uint32(n.State[4*i:])
	}
	for i, p := range n.Proof {
		if i < len(e.Proof) {
			e.Proof[i] = proofEntry(p)
		}
	}
	return e
}

// proofEntry converts a profile; its coefficient becomes a Montgomery form.
func proofEntry(p proof.Profile) ioamIoamProof {
	if p.Prime == 0 {
		return ioamIoamProof{}
	}
	radix, prime := new(big.Int).Lsh(big.NewInt(1), 64), new(big.Int).SetUint64(p.Prime)
	inverse := new(big.Int).ModInverse(prime, radix)
	lagrange := new(big.Int).Mul(new(big.Int).SetUint64(p.Lagrange), radix)
	e := ioamIoamProof{Prime: p.Prime, Inverse: new(big.Int).Sub(radix, inverse).Uint64(), Share: p.Share,
		Lagrange: lagrange.Mod(lagrange, prime).Uint64(), Secret: math.MaxUint64, MaskIn: p.MaskIn, MaskOut: p.MaskOut}
	if p.Verifier {
		e.Secret = p.Secret
	}
	return e
}

// place is an existing device of an interface.
type place struct {
	rtnl.Device
	Interface
}

// setInterfaces writes the existing devices and keeps their saved MTUs.
func (d *dataPlane) setInterfaces(want []place) error {
	for _, p := range want {
		var entry ioamIoamInterface
		_ = d.objects.IoamInterfaces.Lookup(uint32(p.Index), &entry) // keep the saved MTU
		entry.Id, entry.Wide, entry.Mtu, entry.L2, entry.Roles = uint32(p.ID), p.Wide, uint32(p.MTU), uint32(p.Header), 0
		if p.Ingress {
			entry.Roles |= uint32(ioamIoamRoleIOAM_ROLE_INGRESS)
		}
		if p.Egress {
			entry.Roles |= uint32(ioamIoamRoleIOAM_ROLE_EGRESS)
		}
		if err := d.objects.IoamInterfaces.Put(uint32(p.Index), entry); err != nil {
			return fmt.Errorf("set interface %s: %w", p.Device.Name, err)
		}
	}
	return nil
}

// setScopes writes the encapsulations and keys of scopes; host is the key of the whole host. New
// encapsulations get unused numbers, so that no packet sees a partial one.
func (d *dataPlane) setScopes(have, want module.State, host match.Key, wanted Config) (kinds uint32, err error) {
	numbers, err := d.setEncapsulations(want.Scopes, wanted)
	if err != nil {
		return 0, err
	}
	stays := map[int]bool{}
	for i, b := range want.Scopes {
		e := EncapsulationOf(b.Scope)
		stays[b.Index] = true
		s := e.Conditions.entry()
		s.Encap, s.Carrier = numbers[i][0], numbers[i][1]
		s.Sampling, s.K, s.N = e.Sampling.entry()
		if b.Shadow {
			s.Shadow = 1
		}
		if err := d.objects.IoamScopes.Put(uint32(b.Index), s); err != nil {
			return 0, fmt.Errorf("set scope %s: %w", b.Name, err)
		}
	}
	maps := match.Maps{Program: ebpf.SchedCLS, Entries: match.Fields(&d.objects.ioamMaps)}
	if err := maps.SetOrders(have.Orders(host), want.Orders(host)); err != nil {
		return 0, err
	}
	if kinds, err = maps.Reassign(have.Assignments(), want.Assignments()); err != nil {
		return 0, err
	}
	for _, b := range have.Scopes {
		if stays[b.Index] {
			continue
		}
		if err := d.objects.IoamScopes.Put(uint32(b.Index), ioamIoamScope{}); err != nil {
			return 0, fmt.Errorf("end scope %s: %w", b.Name, err)
		}
		if err := bpfmap.Clear[ioamIoamScopeCounts](d.objects.IoamScopeCounted, uint32(b.Index)); err != nil {
			return 0, fmt.Errorf("clear counters of scope %s: %w", b.Name, err)
		}
	}
	return kinds, nil
}

func (s Sampling) entry() (kind, k, n uint32) {
	switch s.Kind {
	case Chance, Flows:
		kind = uint32(ioamIoamSamplingIOAM_CHANCE)
		if s.Kind == Flows {
			kind = uint32(ioamIoamSamplingIOAM_FLOWS)
		}
		return kind, uint32(math.Min(s.Part*(1<<32), math.MaxUint32)), 0
	}
	return uint32(ioamIoamSamplingIOAM_COUNT), s.K, s.N
}

// setEncapsulations writes the different encapsulations and returns the numbers of each scope: the
// second, for packets with a context, is 0 without one. Numbers in use stay unchanged.
func (d *dataPlane) setEncapsulations(want []module.Bound, wanted Config) ([][2]uint32, error) {
	used, err := d.usedEncapsulations()
	if err != nil {
		return nil, err
	}
	numbers, made := make([][2]uint32, len(want)), map[string]uint32{}
	free := uint32(1)
	for i, b := range want {
		templates, err := wanted.templates(b.Scope)
		if err != nil {
			return nil, fmt.Errorf("scope %s: %w", b.Name, err)
		}
		for j, t := range templates {
			key := t.key()
			if numbers[i][j] = made[key]; numbers[i][j] != 0 {
				continue
			}
			for slices.Contains(used, free) {
				free++
			}
			if err := d.setEncapsulation(free, t); err != nil {
				return nil, fmt.Errorf("scope %s: %w", b.Name, err)
			}
			numbers[i][j], made[key] = free, free
			free++
		}
	}
	return numbers, nil
}

// setEncapsulation writes one encapsulation.
func (d *dataPlane) setEncapsulation(number uint32, t *template) error {
	if number >= d.objects.IoamEncaps.MaxEntries() {
		return errors.New("no number is left for its encapsulation")
	}
	if err := d.objects.IoamTemplates.Put(number, t.value()); err != nil {
		return fmt.Errorf("set encapsulation: %w", err)
	}
	if err := d.objects.IoamEncaps.Put(number, t.encap); err != nil {
		return fmt.Errorf("set encapsulation: %w", err)
	}
	return nil
}

// usedEncapsulations returns the numbers used by scopes.
func (d *dataPlane) usedEncapsulations() (used []uint32, err error) {
	var key uint32
	var scope ioamIoamScope
	all := d.objects.IoamScopes.Iterate()
	for all.Next(&key, &scope) {
		for _, number := range []uint32{scope.Encap, scope.Carrier} {
			if number != 0 {
				used = append(used, number)
			}
		}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("read scopes: %w", err)
	}
	return used, nil
}
