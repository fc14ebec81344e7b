package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"tare/image"
	"tare/nearest"
	"tare/platform"
	"tare/platform/engine"
	"tare/terminal"
)

const kindImage = "image"

// ourImages is the registry in the references of every image that package
// image makes; nothing else is ever removed.
const ourImages = "tare.local/"

// Prepare loads the image's archive into the engine, unless the engine has it.
func (p *Platform) Prepare(ctx context.Context, img image.Image) error {
	p.load.Lock()
	defer p.load.Unlock()
	if present, err := p.holds(ctx, img.Reference); err != nil || present {
		return err
	}
	if err := p.room(ctx, img); err != nil {
		return err
	}
	archive, err := os.Open(img.Archive)
	if err != nil {
		return fmt.Errorf("load image %s into the engine: %w", img.Name, err)
	}
	defer archive.Close()

	entry := platform.Entry{Platform: p.name, Kind: kindImage, ID: img.Reference}
	p.mu.Lock()
	done, again := p.images[img.Reference]
	p.made[img.Reference] = true
	p.mu.Unlock()
	if !again { // else somebody removed what we had loaded, and the entry stands
		if done, err = p.ledger.Add(entry); err != nil {
			return fmt.Errorf("enter image %s in the ledger: %w", img.Reference, err)
		}
	}
	err = p.loadArchive(ctx, img, archive)
	if err == nil {
		p.mu.Lock()
		p.images[img.Reference] = done
		p.mu.Unlock()
		return nil
	}
	// Where the engine refused, nothing came to be. Where it went silent, or
	// we did, it may be finishing still: the entry stays for tare clean.
	refused := new(engine.Error)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.requests.Patience)
	defer cancel()
	if rerr := p.Remove(cleanup, entry); rerr == nil && errors.As(err, &refused) {
		done()
		p.mu.Lock()
		delete(p.images, img.Reference)
		p.mu.Unlock()
	}
	return err
}

// holds reports whether the engine knows the reference.
func (p *Platform) holds(ctx context.Context, reference string) (bool, error) {
	err := p.call(ctx, "look for image "+reference, func(ctx context.Context) error {
		_, err := p.client.ImageInspect(ctx, reference)
		return err
	})
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

func (p *Platform) loadArchive(ctx context.Context, img image.Image, archive io.Reader) error {
	doing := "load image " + img.Name + " into the engine"
	err := p.requests.Transfer(ctx, doing, func(ctx context.Context) error {
		answer, err := p.client.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
		if err != nil {
			return err
		}
		defer answer.Close()
		return loadAnswer(answer)
	})
	if err != nil {
		return err
	}
	present, err := p.holds(ctx, img.Reference)
	if err == nil && !present {
		err = &engine.Error{Doing: doing, Message: img.Archive + " holds no image tagged " + img.Reference + "; build the image anew"}
	}
	return err
}

// loadAnswer reads the engine's progress messages to their end: an error (a
// full disk, a bad layer) comes among them, under status 200.
func loadAnswer(r io.Reader) error {
	for messages := json.NewDecoder(r); ; {
		var m jsonstream.Message
		switch err := messages.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the engine's answer: %w", err)
		case m.Error != nil:
			return m.Error
		}
	}
}

// Release removes the images that Prepare loaded; the ones that were in the
// engine before stay.
func (p *Platform) Release(ctx context.Context) error {
	p.mu.Lock()
	references := make([]string, 0, len(p.images))
	for reference := range p.images {
		references = append(references, reference)
	}
	p.mu.Unlock()
	sort.Strings(references)
	var errs []error
	for _, reference := range references {
		if err := p.Remove(ctx, platform.Entry{Platform: p.name, Kind: kindImage, ID: reference}); err != nil {
			errs = append(errs, err)
			continue
		}
		p.mu.Lock()
		done := p.images[reference]
		delete(p.images, reference)
		p.mu.Unlock()
		if done != nil {
			done()
		}
	}
	return errors.Join(errs...)
}

// UnknownImage says that the engine does not hold an image.
type UnknownImage struct {
	Reference string
	Similar   []string // references that it does hold, the likeliest first
}

func (u *UnknownImage) Error() string {
	hint := "pull or load it first: docker pull " + terminal.Shell(u.Reference)
	if len(u.Similar) > 0 {
		hint = "did you mean " + strings.Join(u.Similar, ", ") + "?"
	}
	return fmt.Sprintf("the engine has no image %q (tare never pulls); %s", u.Reference, hint)
}

// Export gives an image that the engine holds, in docker-archive format. The
// error is an *UnknownImage where it holds none of that name. The reader is to
// be closed; its errors tell an engine that went away.
func (p *Platform) Export(ctx context.Context, reference string) (io.ReadCloser, error) {
	present, err := p.holds(ctx, reference)
	if err != nil {
		return nil, err
	}
	if !present {
		return nil, &UnknownImage{Reference: reference, Similar: p.similar(ctx, reference)}
	}
	doing := "save image " + reference
	watched, stop := p.requests.Watch(ctx)
	stream, err := p.client.ImageSave(watched, []string{reference})
	if err != nil {
		cause := context.Cause(watched)
		stop()
		if cause != nil {
			return nil, fmt.Errorf("%s: %w", doing, cause)
		}
		return nil, p.explain(doing, err)
	}
	return &export{stream: stream, stop: stop, explain: func(err error) error {
		if cause := context.Cause(watched); cause != nil {
			return fmt.Errorf("%s: %w", doing, cause)
		}
		return p.explain(doing, err)
	}}, nil
}

// export is an image on its way out of the engine.
type export struct {
	stream  io.ReadCloser
	stop    func()
	explain func(error) error
}

func (e *export) Read(b []byte) (int, error) {
	n, err := e.stream.Read(b)
	if err != nil && err != io.EOF {
		err = e.explain(err)
	}
	return n, err
}

func (e *export) Close() error {
	err := e.stream.Close()
	e.stop()
	return err
}

// similar lists the references most like the one asked for, at most five.
func (p *Platform) similar(ctx context.Context, reference string) []string {
	var known []string
	err := p.call(ctx, "list images", func(ctx context.Context) error {
		answer, err := p.client.ImageList(ctx, client.ImageListOptions{})
		for _, img := range answer.Items {
			known = append(known, img.RepoTags...)
		}
		return err
	})
	if err != nil {
		return nil // the main error stands without a hint
	}
	return like(reference, known)
}

// like lists those of known that are most like the reference, at most five.
func like(reference string, known []string) []string {
	const most = 5
	known = slices.DeleteFunc(slices.Clone(known), func(k string) bool {
		return strings.HasPrefix(k, ourImages) || strings.HasPrefix(k, "<none>")
	})
	slices.Sort(known)
	return nearest.Of(known, most, func(k string) (int, bool) {
		d := min(nearest.Edits(reference, k), nearest.Edits(repository(reference), repository(k)))
		if strings.Contains(k, repository(reference)) {
			d = min(d, 1)
		}
		return d, d <= max(1, len(repository(reference))/3)
	})
}

// repository cuts registry path and tag: "registry:5000/library/redis:7" is "redis".
func repository(reference string) string {
	name := reference[strings.LastIndexByte(reference, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
