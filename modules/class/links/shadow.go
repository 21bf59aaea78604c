// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/bpfmap"
	"weir/kernel/device"
	"weir/kernel/rtnl"
)

// shadowOrder is nearer to the wire than all other programs of Weir, because the classes of a link
// see their results.
const shadowOrder device.Order = -300

// InShadow is the same that only counts.
func (t *Treatment) InShadow() policy.Treatment {
	shadow := *t
	shadow.Shadow = true
	return &shadow
}

// shadows are the links in shadow, by device.
func shadows(s module.State) map[string]*Treatment {
	all := map[string]*Treatment{}
	for _, item := range s.Host {
		if t, ok := item.Treatment.(*Treatment); ok && t.Shadow {
			all[t.Device] = t
		}
	}
	return all
}

// counting returns a device's shadow programs; none for a removed device.
func (p *hostPlane) counting(dev string) ([]*device.Attachment, error) {
	found, err := device.Attached(nil, dev, moduleName, p.host.Devices)
	if errors.Is(err, device.ErrGone) {
		return nil, nil
	}
	return found, err
}

// lead gives every link in shadow its program, and takes the others away.
func (p *hostPlane) lead(want module.State, known map[string]rtnl.Device) error {
	links := shadows(want)
	for name := range known {
		found, err := p.counting(name)
		if err == nil && links[name] != nil {
			err = p.count(links[name], found)
		}
		for _, a := range found {
			if links[name] == nil {
				err = errors.Join(err, a.Detach())
			} else {
				_ = a.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("links.%s: %w", name, err)
		}
	}
	return device.Prune(p.host.Devices)
}

// count counts a link's packets by class. Counters restart at each change.
func (p *hostPlane) count(t *Treatment, found []*device.Attachment) error {
	program, err := t.loadShadow()
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	if len(found) > 0 {
		return found[0].Replace(program)
	}
	a, err := device.Attach(nil, t.Device, device.Egress, shadowOrder, moduleName, program, device.Options{Pins: p.host.Devices})
	if errors.Is(err, device.ErrGone) {
		return nil
	}
	if err != nil {
		return programNeeds.Fault("count at the link", err)
	}
	return a.Close()
}

// countedAt returns the devices with shadow programs.
func (p *hostPlane) countedAt(known map[string]rtnl.Device) (map[string]bool, error) {
	all := map[string]bool{}
	for name := range known {
		found, err := p.counting(name)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			all[name] = true
			_ = a.Close()
		}
	}
	return all, nil
}

// Scale of the program's work, as shadow.h has it.
const workScale = 24

// settings returns the parameters of the program for a link.
func (t *Treatment) settings() (all classifyLinksSettings) {
	all.Rate = uint64(octets(t.Rate, 1<<workScale*time.Nanosecond))
	all.Overhead = uint32(t.Overhead)
	for i, c := range t.Classes {
		if c.Name == bestEffort {
			all.Fallback = uint32(i)
		}
		all.Queue[i], all.Priority[i] = uint64(octets(t.ceiling(c), time.Duration(c.Queue))), c.Priority
	}
	return all
}

// shadowCounts returns the hypothetical counters of each class; nil without a shadow program.
func (p *hostPlane) shadowCounts(dev string) (all []classifyLinksCounts, err error) {
	found, err := p.counting(dev)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	defer func() {
		for _, a := range found {
			_ = a.Close()
		}
	}()
	spec, err := loadClassify()
	if err != nil {
		return nil, fmt.Errorf("read classifying program: %w", err)
	}
	counters, err := found[0].Map(spec.Maps[classifyMapLinksCounters])
	if err != nil || counters == nil {
		return nil, err
	}
	defer func() { _ = counters.Close() }()
	all = make([]classifyLinksCounts, counters.MaxEntries())
	for i := range all {
		if all[i], err = bpfmap.Sum[classifyLinksCounts](counters, uint32(i)); err != nil {
			return nil, fmt.Errorf("read counters of a link in shadow: %w", err)
		}
	}
	return all, nil
}
