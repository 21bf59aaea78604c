// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"

	"weir/kernel/rtnl"
)

// deviceNames maps the indices of all devices to their current names.
func deviceNames() (map[int]string, error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	named := map[int]string{}
	for _, d := range all {
		named[d.Index] = d.Name
	}
	return named, err
}

func deleteDevice(name string) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	return links.Delete(name)
}

// installOrClean installs a shaper. If its device disappears meanwhile, it removes the partial
// state instead.
func (h Host) installOrClean(p *programs, l Shaper) error {
	err := h.install(p, l)
	if err == nil {
		return nil
	}
	named, unread := deviceNames()
	if _, there := named[l.Index]; there || unread != nil {
		return errors.Join(err, unread)
	}
	return h.sweepRecords(p, func(key string, _ record) bool { return key != recordKey(l.Index, l.Direction) })
}

// removeOrphans removes the shapers of devices that no longer exist.
func (h Host) removeOrphans(p *programs) error {
	named, err := deviceNames()
	if err != nil {
		return err
	}
	return h.sweepRecords(p, func(_ string, r record) bool { _, there := named[r.Index]; return there })
}
