// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/modules/offload/pins"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
)

// ErrNone is returned without a pinned table.
var ErrNone = errors.New("no fast path is active")

// Pinned is an active table, opened for reading.
type Pinned struct {
	maps  map[string]*ebpf.Map
	share map[string]shared
	tree  *tree
	pins  string
	ports map[uint16]int // devices by number
	// Samples has the sampled destinations; none without a budget.
	Samples sample.Sampler
}

// Open opens the table pinned in a folder; [ErrNone] without one.
func Open(folder string) (p *Pinned, err error) {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	unlock, err := pins.Lock(folder) // excludes an install
	if err != nil {
		return nil, err
	}
	defer unlock()
	folders, err := filepath.Glob(filepath.Join(folder, tablePin+"*"))
	if err != nil || len(folders) == 0 {
		return nil, errors.Join(ErrNone, err)
	}
	table := folders[len(folders)-1]
	p = &Pinned{maps: map[string]*ebpf.Map{}, share: map[string]shared{}, pins: folder, ports: map[uint16]int{}}
	opened := p
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	for _, name := range []string{"blocks", "inputs", "nexts", "hops", "lease", "forwarded", "left", "ports"} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(table, name), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNone // a crash during pinning
		}
		if err != nil {
			return nil, fmt.Errorf("open the fast path's table: %w", err)
		}
		p.maps[name] = m
	}
	if p.Samples, err = sample.Pinned(table); err != nil {
		return nil, err
	}
	for _, name := range []string{"blocks", "inputs", "nexts", "hops", "lease"} {
		if p.share[name], err = share(p.maps[name]); err != nil {
			return nil, err
		}
	}
	p.tree = &tree{words: of[uint32](p.share["blocks"])}
	var number, index uint32
	for all := p.maps["ports"].Iterate(); all.Next(&number, &index); {
		p.ports[uint16(number)] = int(index)
	}
	return p, nil
}

// Close releases the maps.
func (p *Pinned) Close() {
	for _, m := range p.share {
		m.close()
	}
	for _, m := range p.maps {
		_ = m.Close()
	}
	p.Samples.Close()
}

// Counts reads the counters of the programs.
func (p *Pinned) Counts() (Counts, error) { return readCounts(p.maps["forwarded"], p.maps["left"]) }

// Lease returns the rest of the lease; below 0 it has ended.
func (p *Pinned) Lease() (time.Duration, error) {
	at, err := pins.Now()
	return time.Duration(int64(atomic.LoadUint64(&of[uint64](p.share["lease"])[0]) - at)), err
}

// Memory returns the bytes of the table.
func (p *Pinned) Memory() (octets uint64) {
	for _, m := range p.share {
		octets += uint64(len(m.octets))
	}
	return octets
}

// Attached returns the devices with the program.
func (p *Pinned) Attached() (all []int, err error) {
	pinned, err := filepath.Glob(filepath.Join(p.pins, portPin+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range pinned {
		l, err := link.LoadPinnedLink(path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the fast path's attachment: %w", err)
		}
		info, err := l.Info()
		_ = l.Close()
		index, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), portPin))
		if err == nil && info.XDP() != nil && int(info.XDP().Ifindex) == index {
			all = append(all, index)
		}
	}
	return all, nil
}

// Hops returns the table's hops for an address; nil for the CPU.
func (p *Pinned) Hops(a netip.Addr) (all []plan.Hop) {
	d := p.tree.lookup(a)
	nexts := of[fastFastNext](p.share["nexts"])
	if int(d) >= int(p.maps["nexts"].MaxEntries()) {
		return nil
	}
	n := nexts[d]
	count := int(atomic.LoadUint32(&nexts[d].Count))
	hops := []fastFastHop{n.Hop}
	if count > 1 {
		hops = of[fastFastHop](p.share["hops"])[n.First:]
	}
	reached := uint32(0)
	for _, h := range hops[:count] {
		all = append(all, plan.Hop{Port: p.ports[h.Port], VLAN: int(h.Vlan), Src: h.Src, Dst: h.Dst, MTU: int(h.Mtu), Weight: int(h.Bound - reached)})
		reached = h.Bound
	}
	return all
}

// Program returns the program of a device, for test runs.
func (p *Pinned) Program(index int) (*ebpf.Program, error) {
	l, err := link.LoadPinnedLink(filepath.Join(p.pins, portPin+strconv.Itoa(index)), nil)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, ErrNone
		}
		return nil, fmt.Errorf("open the fast path's attachment: %w", err)
	}
	defer func() { _ = l.Close() }()
	info, err := l.Info()
	if err != nil {
		return nil, fmt.Errorf("open the fast path's attachment: %w", err)
	}
	return ebpf.NewProgramFromID(info.Program)
}

// Ports returns the number of devices of the table.
func (p *Pinned) Ports() int { return len(p.ports) }

// Samples opens the samples of the table pinned in a folder; the zero value without one.
func Samples(folder string) (sample.Sampler, error) {
	tables, err := pins.List(folder, tablePin)
	if err != nil || len(tables) == 0 {
		return sample.Sampler{}, err
	}
	return sample.Pinned(filepath.Join(folder, tables[len(tables)-1]))
}
