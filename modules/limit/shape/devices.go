// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"

	"weir/kernel/rtnl"
)

// names are those that the devices have now, by their indices.
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

// installOrClean begins a line of which the device may go meanwhile: then it ends what it left.
func (h Host) installOrClean(p *programs, l Line) error {
	err := h.install(p, l)
	if err == nil {
		return nil
	}
	named, unseen := deviceNames()
	if _, there := named[l.Index]; there || unseen != nil {
		return errors.Join(err, unseen)
	}
	left, err := h.find(l.Index, l.Direction)
	if err != nil || left == nil {
		return err
	}
	return h.remove(p, left)
}

// removeOrphans ends the lines of devices that have gone.
func (h Host) removeOrphans(p *programs) error {
	named, err := deviceNames()
	if err != nil {
		return err
	}
	all, err := h.records()
	for _, r := range all {
		if _, there := named[r.Index]; !there {
			err = errors.Join(err, h.remove(p, r))
		}
	}
	return err
}
