// SPDX-License-Identifier: Apache-2.0

// Image writes a container image with one program in it, as an archive of the Open Container
// Initiative's layout, without a container engine. The same program gives the same archive.
//
//	image -binary bin/weir -version 0.1.0 -out dist/weir.oci.tar
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	binary := flag.String("binary", "bin/weir", "the program")
	release := flag.String("version", "", "its version")
	out := flag.String("out", "weir.oci.tar", "the archive")
	arch := flag.String("arch", runtime.GOARCH, "architecture that the program is for")
	flag.Parse()
	if err := run(*binary, *release, *arch, *out); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(binary, release, arch, out string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	var archive bytes.Buffer
	if err := write(&archive, program, release, arch); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}

// descriptor names content by its digest (image-spec, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type object map[string]any

// file is one entry of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

// layout collects the blobs of an image.
type layout struct{ files []file }

func (l *layout) blob(kind string, data []byte) descriptor {
	digest := fmt.Sprintf("%x", sha256.Sum256(data))
	l.files = append(l.files, file{"blobs/sha256/" + digest, 0o644, data})
	return descriptor{MediaType: kind, Digest: "sha256:" + digest, Size: len(data)}
}

func (l *layout) document(kind string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	return l.blob(kind, text), err
}

// write writes the archive: one layer with the program, its configuration, the manifest and the
// index.
func write(to io.Writer, program []byte, release, arch string) error {
	var layer bytes.Buffer
	if err := pack(&layer, []file{{"usr/bin/weir", 0o755, program}}); err != nil {
		return err
	}
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed) // its header has no time unless one is set
	if _, err := z.Write(layer.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	const media = "application/vnd.oci.image."
	labels := map[string]string{"org.opencontainers.image.title": "weir", "org.opencontainers.image.version": release, "org.opencontainers.image.licenses": "Apache-2.0"}
	l := &layout{}
	config, err := l.document(media+"config.v1+json", object{
		"architecture": arch, "os": "linux",
		"config": object{"Entrypoint": []string{"/usr/bin/weir"}, "Env": []string{"PATH=/usr/bin"}, "Labels": labels},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := l.document(media+"manifest.v1+json", object{"schemaVersion": 2, "mediaType": media + "manifest.v1+json",
		"config": config, "layers": []descriptor{l.blob(media+"layer.v1.tar+gzip", compressed.Bytes())}, "annotations": labels})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": release}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": media + "index.v1+json", "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	return pack(to, append([]file{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}, l.files...))
}

// pack writes files with owner root and the epoch as time.
func pack(to io.Writer, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
