package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// recipe says how an image is made: which packages, which of their programs
// are wanted (what these do not need is left out), and what is added.
type recipe struct {
	name     string
	lockedBy string // the recipe whose lock file holds the packages; empty: its own
	summary  string
	packages []string
	programs []string
	// keep names packages that the programs reach other than by linking.
	keep []string
	// directories are made, empty.
	directories []string
	// tools is a hidden recipe whose root is at hand while add runs.
	tools  string
	config Config
	// links are symbolic links to add: name to target.
	links map[string]string
	// add makes what no package has; nil where nothing is.
	add func(ctx context.Context, b *build) error
	// sources are what add compiles, so that a changed source is a changed recipe.
	sources func() ([]byte, error)
	// jars are Java archives asked of the Maven repository, GROUP:ARTIFACT:VERSION;
	// those that they depend on come with them. They are put into jarDirectory.
	jars []string
	// modules are of Node.js, asked of the npm registry, NAME@VERSION; those that they
	// depend on come with them. They are put into moduleDirectory.
	modules []string
}

// recipes lists what can be built, in the order in which people see it.
var recipes = []recipe{
	redisRecipe,
	httpdRecipe,
	docstoreRecipe,
	multimodelRecipe,
	wordpressRecipe,
	bookingRecipe,
	cassandraRecipe,
	mapstoreRecipe,
	thriftRecipe,
	streamRecipe,
	streamMPIRecipe,
	streamPeerRecipe,
	ffmpegRecipe,
	uriParserRecipe,
	hashingRecipe,
	pageRankRecipe,
	fioRecipe,
	haccioRecipe,
	mpiRecipe,
	staticRecipe,
	heapRecipe,
	filesRecipe,
	emptyRecipe,
	busyboxRecipe,
}

// toolRecipes are those that are no workload's: other recipes use them, or virtual
// machines ([Store.Guest]).
var toolRecipes = []recipe{
	compilerRecipe,
	lmdbCompilerRecipe,
	goCompilerRecipe,
	javaCompilerRecipe,
	mpiCompilerRecipe,
	openMPICompilerRecipe,
	guestKernelRecipe,
	guestToolsRecipe,
	guestDebianRecipe,
}

// Recipes lists the names of the recipes that the store can build.
func (s *Store) Recipes() []string {
	var names []string
	for _, r := range recipes {
		names = append(names, r.name)
	}
	return names
}

func findRecipe(name string) (recipe, bool) {
	for _, r := range slices.Concat(recipes, largeRecipes, toolRecipes) {
		if r.name == name {
			return r, true
		}
	}
	return recipe{}, false
}

// lockName is the recipe whose lock file holds the packages.
func (r recipe) lockName() string { return cmp.Or(r.lockedBy, r.name) }

// buildFormat is raised when the way of building changes what is built.
const buildFormat = 1

// key is over everything that decides what a recipe builds.
func (r recipe) key(arch string) (string, error) {
	content := map[string]any{
		"format": buildFormat, "arch": arch, "name": r.name, "packages": r.packages, "programs": r.programs,
		"keep": r.keep, "directories": r.directories, "config": r.config, "links": r.links,
	}
	_, text, _, err := readLock(r.lockName(), debianArch(arch))
	if err != nil {
		return "", err
	}
	content["lock"] = string(text)
	if r.sources != nil {
		sources, err := r.sources()
		if err != nil {
			return "", fmt.Errorf("sources of recipe %s: %w", r.name, err)
		}
		content["sources"] = string(sources)
	}
	if len(r.jars) > 0 {
		content["jars"] = r.jars
	}
	if len(r.modules) > 0 {
		content["modules"] = r.modules
	}
	if r.tools != "" {
		tools, ok := findRecipe(r.tools)
		if !ok {
			return "", fmt.Errorf("recipe %s: no recipe %s for its tools", r.name, r.tools)
		}
		if content["tools"], err = tools.key(arch); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// Recipe gives the recipe's image, and builds it first where the store does
// not have it yet. Errors are [Missing] where the host lacks something, and
// [Full].
func (s *Store) Recipe(ctx context.Context, name string) (Image, error) {
	named := func(r recipe) bool { return r.name == name }
	if !slices.ContainsFunc(recipes, named) && !slices.ContainsFunc(largeRecipes, named) {
		return Image{}, fmt.Errorf("no recipe %q: there are %s", name, strings.Join(s.Recipes(), ", "))
	}
	r, _ := findRecipe(name)
	img, err := s.recipe(ctx, r)
	// Beside the recipe, so that an image in which nothing else has changed is not made anew.
	img.Config.Env = slices.Concat([]string{"LANG=C.UTF-8"}, img.Config.Env)
	return img, err
}

func (s *Store) recipe(ctx context.Context, r recipe) (Image, error) {
	key, err := r.key(s.arch)
	if err != nil {
		return Image{}, err
	}
	built := "recipe-" + r.name + "-" + key
	if img, err := s.built(built); err == nil {
		return img, nil
	}
	img, err := s.make(ctx, r, built)
	return img, s.fault("build image "+r.name, err)
}

// built gives the image that a recipe's pointer in the index names.
func (s *Store) built(pointer string) (Image, error) {
	id, err := os.ReadFile(s.path("index", pointer))
	if err != nil {
		return Image{}, err
	}
	img, err := s.load(strings.TrimSpace(string(id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Image{}, fmt.Errorf("read image store: %w", err)
	}
	return img, err
}

func (s *Store) make(ctx context.Context, r recipe, pointer string) (Image, error) {
	if err := needRoot("building an image"); err != nil {
		return Image{}, err
	}
	// Whoever comes second waits, and finds it built.
	release, err := s.lock(ctx, "recipe-"+r.name)
	if err != nil {
		return Image{}, err
	}
	defer release()
	if img, err := s.built(pointer); err == nil {
		return img, nil
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	b := &build{store: s, recipe: r, work: w, root: w.root}
	img, err := b.run(ctx)
	if err != nil {
		return Image{}, err
	}
	if img, err = s.finish(ctx, w, img); err != nil {
		return Image{}, err
	}
	return img, s.point(ctx, pointer, img)
}

// point enters in the index that a recipe's image is img.
func (s *Store) point(ctx context.Context, pointer string, img Image) error {
	release, err := s.lock(ctx, "store")
	if err != nil {
		return err
	}
	defer release()
	return s.writeFile(s.path("index", pointer), []byte(idOf(img)+"\n"))
}

// needRoot is the one ability that every making of an image needs: files are
// given their numeric owners.
func needRoot(doing string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return &Missing{What: doing + " gives files their owners, which needs root", Mend: "run with sudo"}
}
