#!/bin/sh
# Keeps the prompts of a repository in a registry: prompts/NAME.md and promptlets/NAME.md.
#
#   prompts.sh check     on a pull request: compile, policies, and what would change; changes nothing
#   prompts.sh release   on a merge: publish what has changed, preview the deployment, promote
#
# ROADSTEAD_URL and ROADSTEAD_API_KEY say where; REGISTRY, LABEL and, for the preview, AGENT,
# ENVIRONMENT and PROVIDER say what. A key for `check` needs the scopes
#   artifact:read@main policy:check
# and one for `release` these, too:
#   artifact:publish@main label:move@main#production deployment:preview@production
set -eu

registry=${REGISTRY:-main}
label=${LABEL:-production}

# Promptlets come first: prompts import them. Each file is a line, since its name may have blanks.
files() {
  for file in promptlets/*.md prompts/*.md; do
    if [ -e "$file" ]; then
      printf '%s\n' "$file"
    fi
  done
}

# What a file is: its folder without the last letter, and its name without the end.
kind() {
  folder=$(dirname "$1")
  echo "${folder%s}"
}
name() {
  basename "$1" .md
}

check() {
  failed=0
  # A list in a file rather than a pipe: what a pipe sets is lost at its end.
  list=$(mktemp)
  files > "$list"
  while IFS= read -r file; do
    type=$(kind "$file") name=$(name "$file")
    # What it imports may be as new as the file itself, and is published before it.
    roadstead prompt check "$registry/$name" "$file" --type "$type" --promptlets promptlets \
      --bump "${BUMP:-patch}" || failed=1
    roadstead prompt diff "$registry/$name" "$label" --file "$file" --type "$type" 2> /dev/null ||
      echo "$registry/$name is new: no version has the label $label"
  done < "$list"
  rm "$list"
  return $failed
}

# The version of a file, published if it has changed.
publish() {
  published=$(roadstead prompt publish "$registry/$2" "$3" --type "$1" --bump "${BUMP:-patch}" \
    --json) || return 1
  echo "$published" | sed 's/.*"version":"\([^"]*\)".*/\1/'
}

release() {
  list=$(mktemp) later=$(mktemp) problems=$(mktemp)
  files > "$list"
  while [ -s "$list" ]; do
    : > "$later"
    waits=
    while IFS= read -r file; do
      type=$(kind "$file") name=$(name "$file")
      # No prompt is published with what a promptlet was before.
      if [ "$type" = prompt ] && [ -n "$waits" ]; then
        printf '%s\n' "$file" >> "$later"
        continue
      fi
      # A promptlet may import one that comes after it: what is refused is tried again behind them.
      version=$(publish "$type" "$name" "$file" 2> "$problems.one") || {
        printf '%s\n' "$file" >> "$later"
        cat "$problems.one" >> "$problems"
        [ "$type" = prompt ] || waits=yes
        continue
      }
      if [ "$type" = prompt ] && [ -n "${AGENT:-}" ]; then
        roadstead deploy "$AGENT" --prompt "$registry/$name@$version" \
          --environment "$ENVIRONMENT" --provider "$PROVIDER" --preview
      fi
      roadstead prompt promote "$registry/$name" "$version" --type "$type" --label "$label"
    done < "$list"
    if cmp -s "$list" "$later"; then
      cat "$problems" >&2
      return 1
    fi
    mv "$later" "$list"
    : > "$problems"
  done
  rm -f "$list" "$later" "$problems" "$problems.one"
}

case ${1:-} in
  check) check ;;
  release) release ;;
  *) echo "usage: prompts.sh check|release" >&2; exit 2 ;;
esac
