package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"tare/image"
	"tare/platform"
	"tare/platform/engine"
)

var _ platform.Layerer = (*Platform)(nil)

// Layering implements [platform.Layerer]. The most layers are those of Docker's
// layer store; another engine's are not known.
func (p *Platform) Layering(ctx context.Context) (platform.Layering, error) {
	info, err := p.engine(ctx)
	if err != nil {
		return platform.Layering{}, err
	}
	l := platform.Layering{Driver: info.Driver, MostLayers: image.MostLayers}
	if info.Driver == "overlay" { // as podman names it
		l.MostLayers = 0
	}
	for _, pair := range info.DriverStatus {
		if strings.EqualFold(pair[0], "Backing Filesystem") {
			l.Backing = pair[1]
		}
	}
	return l, nil
}

// flattenedTag ends the name of an image that Flatten made.
const flattenedTag = "-flattened"

// Flatten implements [platform.Layerer]. The engine's export is handed to its
// import as it comes; nothing of it touches our disk.
func (p *Platform) Flatten(ctx context.Context, img image.Image) (_ platform.Flattened, err error) {
	mark := engine.NewMark()
	name, _, _ := strings.Cut(strings.TrimPrefix(img.Reference, ourImages), ":")
	flat := platform.Flattened{Image: img}
	flat.Image.Name = img.Name + ", flattened"
	flat.Image.Archive = ""
	// A name of its own each time: an import takes the name off the image that had
	// it, which would be left without one.
	flat.Image.Reference = ourImages + name + flattenedTag + ":" + mark
	if flat.Before, err = p.stored(ctx, img.Reference); err != nil {
		return platform.Flattened{}, err
	}
	container, remove, err := p.atRest(ctx, img, mark)
	if err != nil {
		return platform.Flattened{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()

	entry := platform.Entry{Platform: p.name, Kind: kindImage, ID: flat.Image.Reference}
	done, err := p.ledger.Add(entry)
	if err != nil {
		return platform.Flattened{}, fmt.Errorf("enter image %s in the ledger: %w", flat.Image.Reference, err)
	}
	p.mu.Lock()
	p.images[flat.Image.Reference], p.made[flat.Image.Reference] = done, true
	p.mu.Unlock()
	began := time.Now()
	if err := p.reimport(ctx, container, img.Name, flat.Image.Reference); err != nil {
		return platform.Flattened{}, errors.Join(err, p.undo(ctx, flat.Image, err))
	}
	flat.Took = time.Since(began)
	if flat.After, err = p.stored(ctx, flat.Image.Reference); err != nil {
		return platform.Flattened{}, errors.Join(err, p.Discard(context.WithoutCancel(ctx), flat.Image))
	}
	return flat, nil
}

// undo removes what an import that failed may have made. Where the engine went
// silent, or we did, it may be finishing still: the entry stays for tare clean.
func (p *Platform) undo(ctx context.Context, img image.Image, why error) error {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.requests.Patience)
	defer cancel()
	if refused := new(engine.Error); errors.As(why, &refused) {
		return p.Discard(cleanup, img)
	}
	p.mu.Lock()
	delete(p.images, img.Reference)
	p.mu.Unlock()
	return p.Remove(cleanup, platform.Entry{Platform: p.name, Kind: kindImage, ID: img.Reference})
}

// Discard implements [platform.Layerer].
func (p *Platform) Discard(ctx context.Context, img image.Image) error {
	if !strings.Contains(img.Reference, flattenedTag+":") {
		return fmt.Errorf("image %s is not one that was flattened; left alone", img.Reference)
	}
	err := p.Remove(ctx, platform.Entry{Platform: p.name, Kind: kindImage, ID: img.Reference})
	if err != nil {
		return err
	}
	p.mu.Lock()
	done := p.images[img.Reference]
	delete(p.images, img.Reference)
	delete(p.made, img.Reference)
	p.mu.Unlock()
	if done != nil {
		done()
	}
	return nil
}

// stored asks the engine for its account of an image.
func (p *Platform) stored(ctx context.Context, reference string) (platform.Stored, error) {
	var s platform.Stored
	err := p.call(ctx, "inspect image "+reference, func(ctx context.Context) error {
		answer, err := p.client.ImageInspect(ctx, reference)
		if err == nil {
			s = platform.Stored{Bytes: answer.Size, Layers: len(answer.RootFS.Layers)}
		}
		return err
	})
	return s, err
}

// atRest makes a container of an image, which is never started.
func (p *Platform) atRest(
	ctx context.Context,
	img image.Image,
	mark string,
) (id string, remove func() error, err error) {
	info, err := p.engine(ctx)
	if err != nil {
		return "", nil, err
	}
	name := "tare-flatten-" + mark
	never := platform.Process{Args: []string{"/never"}, Dir: "/"}
	options, err := plan{spec: platform.Spec{Image: img}, program: never, info: info, name: name, mark: mark}.options()
	if err != nil {
		return "", nil, err
	}
	entry := platform.Entry{
		Platform: p.name,
		Kind:     kindContainer,
		ID:       name,
		Attrs:    map[string]string{labelLedger: mark},
	}
	done, err := p.ledger.Add(entry)
	if err != nil {
		return "", nil, fmt.Errorf("enter container %s in the ledger: %w", name, err)
	}
	p.mu.Lock()
	p.made[name] = true
	p.mu.Unlock()
	silent := false
	remove = func() error {
		err := p.Remove(context.WithoutCancel(ctx), entry)
		// What an engine that went silent makes yet is for tare clean.
		if err == nil && !silent {
			done()
		}
		p.mu.Lock()
		delete(p.made, name)
		p.mu.Unlock()
		return err
	}
	err = p.call(ctx, "create container "+name, func(ctx context.Context) error {
		answer, err := p.client.ContainerCreate(ctx, options)
		id = answer.ID
		return err
	})
	if err != nil {
		silent = errors.Is(err, platform.ErrGone) || ctx.Err() != nil
		return "", nil, errors.Join(err, remove())
	}
	return id, remove, nil
}

// reimport exports a container and imports what comes, under a new reference.
func (p *Platform) reimport(ctx context.Context, container, name, reference string) error {
	doing := "flatten image " + name
	return p.requests.Transfer(ctx, doing, func(ctx context.Context) error {
		exported, err := p.client.ContainerExport(ctx, container, client.ContainerExportOptions{})
		if err != nil {
			return err
		}
		defer exported.Close()
		source := &whole{r: exported}
		answer, err := p.client.ImageImport(
			ctx,
			client.ImageImportSource{Source: source, SourceName: "-"},
			reference,
			client.ImageImportOptions{},
		)
		if err != nil {
			return err
		}
		defer answer.Close()
		if err := loadAnswer(answer); err != nil {
			return err
		}
		if source.err != nil {
			return fmt.Errorf("the export broke off: %w", source.err)
		}
		return nil
	})
}

// whole keeps the error, other than the end, with which reading ended: the import
// of a part would succeed.
type whole struct {
	r   io.Reader
	err error
}

func (w *whole) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}
