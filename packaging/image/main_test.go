// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
)

// entries reads an archive.
func entries(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	all, r := map[string][]byte{}, tar.NewReader(from)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s has owner %d and time %s", header.Name, header.Uid, header.ModTime)
		}
	}
}

func TestTheImageIsTheProgramAlone(t *testing.T) {
	program := []byte("a program")
	var first, second bytes.Buffer
	for _, to := range []*bytes.Buffer{&first, &second} {
		if err := write(to, program, "1.2.3", "amd64"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two images of one program differ")
	}
	files := entries(t, &first)
	blob := func(d descriptor) []byte {
		t.Helper()
		data := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
		if len(data) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(data)) != d.Digest {
			t.Errorf("%s: %d octets are not what it is called, of %d", d.Digest, len(data), d.Size)
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Architecture, OS string
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, files["index.json"], &index)
	decode(t, blob(index.Manifests[0]), &manifest)
	decode(t, blob(manifest.Config), &config)
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); got != config.RootFS.DiffIDs[0] || config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("the layer is %s, the configuration %+v", got, config)
	}
	if inside := entries(t, bytes.NewReader(layer)); len(inside) != 1 || !bytes.Equal(inside["usr/bin/weir"], program) {
		t.Errorf("the layer has %d files", len(inside))
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
