// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/bpferr"
	hook "weir/kernel/device"
	"weir/kernel/rtnl"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel detour detour.bpf.c

// detour makes the peer reachable through a device of this namespace, connected or not.
// A route leads over the device to an address of a veth pair. A program redirects the packets to
// the pair before they leave the stack for the link, and the device receives the replies of the
// peer.
//
//	socket --- route --- device, egress ---.
//	socket ----------- device, ingress <-. |   programs of detour.bpf.c
//	                                     veth --- peer
//
// After a crash the veth pair ends with the peer's namespace, and the programs with the process.
// The rest stays on the device until the next sweep, which recognises the route by its protocol
// number, with the process id as metric, and the neighbour by a link-layer address that contains
// the process id.
type detour struct {
	device  string // of the detour
	veth    string // this namespace's end
	link    link
	objects detourObjects
	undo    []func() error // of each completed step, in order
}

// through sets up a detour through a device, or returns the existing one.
func (t *testbed) through(device string) (*detour, error) {
	if have := t.detours[device]; have != nil {
		return have, nil
	}
	why, err := closed(device)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return nil, err
	}
	d := &detour{device: device}
	d.veth, d.link = t.numbered("d")
	if err := t.pave(d); err != nil {
		return nil, fmt.Errorf("reach a peer of its own through %s: %w", device, errors.Join(err, d.close()))
	}
	t.detours[device] = d
	return d, nil
}

// pave creates the veth pair, the programs, and then the route to them.
func (t *testbed) pave(d *detour) error {
	here, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer here.Close()
	if err := t.vacant(here, d.link); err != nil {
		return err
	}
	if err := t.join(here, d.veth, d.veth, d.link); err != nil {
		return err
	}
	d.later(func(here *rtnl.Conn) error { return here.Delete(d.veth) })
	device, err := here.Device(d.device)
	if err != nil {
		return err
	}
	if err := t.turn(here, d, device); err != nil {
		return err
	}
	families := t.families()
	if ipv6Off(d.device) {
		families = 1
	}
	for i, there := range d.link.there[:families] {
		if len(device.MAC) == ethernetAddress {
			if err := here.AddNeighbor(d.device, there.Addr(), owned(os.Getpid())); err != nil {
				return err
			}
			d.later(func(here *rtnl.Conn) error { return here.RemoveNeighbor(d.device, there.Addr()) })
		}
		if err := here.AddRoute(rtnl.Route{To: netip.PrefixFrom(there.Addr(), there.Addr().BitLen()), Device: d.device,
			Source: d.link.here[i].Addr(), Protocol: routeProtocol, Metric: uint32(os.Getpid())}); err != nil {
			return err
		}
		d.later(func(here *rtnl.Conn) error { return here.RemoveRoute(routeTo(d.device, there.Addr())) })
	}
	return nil
}

// detourOrder is after the modules' egress programs, which are under test, and before foreign
// programs, which must not process packets to the peer.
const detourOrder hook.Order = 100

// turn attaches the programs.
func (t *testbed) turn(here *rtnl.Conn, d *detour, device rtnl.Device) error {
	veth, err := here.Device(d.veth)
	if err != nil {
		return err
	}
	peer, err := rtnl.Open(t.peer)
	if err != nil {
		return err
	}
	defer peer.Close()
	far, err := peer.Device(d.veth)
	if err != nil {
		return err
	}
	// The peer sends no neighbour requests: this namespace may be configured not to answer them.
	for _, a := range d.link.here[:t.families()] {
		if err := peer.AddNeighbor(d.veth, a.Addr(), veth.MAC); err != nil {
			return err
		}
	}
	if err := d.load(device, veth, far); err != nil {
		return err
	}
	for _, at := range []struct {
		device  string
		hook    hook.Hook
		program *ebpf.Program
	}{{d.device, hook.Egress, d.objects.DetourOut}, {d.veth, hook.Ingress, d.objects.DetourIn}} {
		attached, err := hook.Attach(nil, at.device, at.hook, detourOrder, "detour", at.program, hook.Options{Known: t.engine.DevicePins()})
		if err != nil {
			return fault.Wrap(fmt.Errorf("attach the detour: %w", err), fault.Testbed, "name a peer behind the interface with --peer")
		}
		d.undo = append(d.undo, attached.Close)
	}
	return nil
}

func (d *detour) load(device, veth, peer rtnl.Device) error {
	way := detourDetourWay{Device: uint32(device.Index), Veth: uint32(veth.Index), Peer4: d.link.there[0].Addr().As4(), Peer6: d.link.there[1].Addr().As16()}
	copy(way.VethMac[:], veth.MAC)
	copy(way.PeerMac[:], peer.MAC)
	if len(device.MAC) == ethernetAddress {
		way.Ethernet = 1
		copy(way.DeviceMac[:], device.MAC)
	}
	spec, err := loadDetour()
	if err == nil {
		err = spec.Variables["way"].Set(way)
	}
	if err != nil {
		return fmt.Errorf("load the detour: %w", err)
	}
	if err := spec.LoadAndAssign(&d.objects, nil); err != nil {
		return programNeeds.Fault("load the detour", err)
	}
	d.undo = append(d.undo, d.objects.Close)
	return nil
}

// later records how to revert a step in this namespace.
func (d *detour) later(back func(here *rtnl.Conn) error) {
	d.undo = append(d.undo, func() error { return with(nil, back) })
}

// close reverts all steps in reverse order: the route before its target.
func (d *detour) close() error {
	var errs []error
	for _, back := range slices.Backward(d.undo) {
		errs = append(errs, back())
	}
	d.undo = nil
	return errors.Join(errs...)
}

func routeTo(device string, peer netip.Addr) rtnl.Route {
	return rtnl.Route{To: netip.PrefixFrom(peer, peer.BitLen()), Device: device}
}

const (
	ethernetAddress = 6    // bytes
	routeProtocol   = 0x77 // unused in /etc/iproute2/rt_protos
)

// owner starts locally administered addresses that identify their process.
var owner = net.HardwareAddr{0x02, 0x77}

func owned(pid int) net.HardwareAddr {
	return binary.BigEndian.AppendUint32(slices.Clone(owner), uint32(pid))
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// sweepDetours removes the routes and neighbours of dead processes.
func sweepDetours() error {
	conn, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	routes, err := conn.RoutesOf(routeProtocol)
	if err != nil {
		return err
	}
	found, err := conn.Neighbors()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range routes {
		if ours(r.To.Addr()) && gone(int(r.Metric)) {
			errs = append(errs, conn.RemoveRoute(r))
		}
	}
	devices, err := conn.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices { // programs outlive their process
		if err := hook.Sweep(nil, d.Name); !errors.Is(err, hook.ErrGone) {
			errs = append(errs, err)
		}
	}
	for _, n := range found {
		if len(n.MAC) == ethernetAddress && bytes.HasPrefix(n.MAC, owner) && ours(n.Address) && gone(int(binary.BigEndian.Uint32(n.MAC[len(owner):]))) {
			errs = append(errs, conn.RemoveNeighbor(n.Device, n.Address))
		}
	}
	return errors.Join(errs...)
}

// ours reports whether an address is in the ranges of own peers (RFC 2544, RFC 5180).
func ours(a netip.Addr) bool {
	return netip.MustParsePrefix("198.18.0.0/15").Contains(a) || netip.MustParsePrefix("2001:2::/48").Contains(a)
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later"}
