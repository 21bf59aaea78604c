// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// needIngress attaches the ingress program if the others are attached.
func (p *DataPlane) needIngress() error {
	if p.objects.LimitIngress == nil {
		return errors.New("the data plane was loaded without its ingress program")
	}
	if err := p.setHeaders(1); err != nil {
		return err
	}
	if p.ingress || p.path == "" && p.dir == "" {
		p.ingress = true
		return nil
	}
	if p.path == "" {
		return fmt.Errorf("attach %s: the cgroup of the pinned limits is unknown", ebpf.AttachCGroupInetIngress)
	}
	return p.attachIngress()
}

// setHeaders sets whether new sockets request the header callback, which sets receive windows.
// Adopt requests it for open sockets.
func (p *DataPlane) setHeaders(on uint32) error {
	if p.settings.Ingress == on {
		return nil
	}
	p.settings.Ingress = on
	if err := p.objects.LimitCurrent.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("set receive windows: %w", err)
	}
	return nil
}

func (p *DataPlane) attachIngress() (err error) {
	if p.inward, err = p.attach(ebpf.AttachCGroupInetIngress, p.objects.LimitIngress); err != nil {
		return err
	}
	p.ingress = true
	if p.dir == "" {
		return nil
	}
	// An existing pin belongs to an attachment that has ended.
	if err := unpin(p.dir, linkPin(ingressPin)); err != nil {
		return err
	}
	return pinLink(p.inward, p.dir, ingressPin)
}

// EndIngress detaches the ingress program if no ingress limit is left. The other programs stay
// attached. After a crash inside it the program is detached, or EndIngress can be repeated.
func (p *DataPlane) EndIngress() error {
	if !p.ingress {
		return nil
	}
	if limited, err := p.limitsIngress(); err != nil || limited {
		return err
	}
	if err := p.setHeaders(0); err != nil {
		return err
	}
	attached, err := p.takeIngress()
	if err != nil || attached == nil {
		return err
	}
	// An explicit detach takes effect at once; dropping the last reference does not, and a new
	// attachment meanwhile would charge packets twice. Linux before 5.10 lacks it.
	if err = attached.Detach(); errors.Is(err, link.ErrNotSupported) {
		err = nil
	}
	if err = errors.Join(err, attached.Close()); err != nil {
		return fmt.Errorf("detach %s: %w", ebpf.AttachCGroupInetIngress, err)
	}
	return nil
}

// takeIngress removes the pin of the ingress attachment and returns its last reference; nil for
// none.
func (p *DataPlane) takeIngress() (attached link.Link, err error) {
	attached, p.inward, p.ingress = p.inward, nil, false
	if p.dir == "" {
		return attached, nil
	}
	if attached == nil {
		attached, err = link.LoadPinnedLink(filepath.Join(p.dir, linkPin(ingressPin)), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, filePermission(fmt.Errorf("open attachment: %w", err))
		}
	}
	if err := unpin(p.dir, linkPin(ingressPin)); err != nil {
		return nil, errors.Join(err, attached.Close())
	}
	return attached, nil
}

// limitsIngress reports whether a scope has an ingress limit.
func (p *DataPlane) limitsIngress() (bool, error) {
	indices, configs := make([]uint32, 2*p.scopes), make([]limitLimitConfig, 2*p.scopes)
	n, err := p.objects.LimitConfigs.BatchLookup(new(ebpf.MapBatchCursor), indices, configs, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, fmt.Errorf("read limits: %w", err)
	}
	for i := range n {
		if Direction(indices[i]%2) == Ingress && configs[i].Rate != 0 {
			return true, nil
		}
	}
	return false, nil
}
