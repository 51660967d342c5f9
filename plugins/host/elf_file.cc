#include "plugins/host/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/align.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

// Above any real plugin; keeps a hostile file from costing much.
constexpr uint64_t kMaxSymbols = 1 << 20;
constexpr uint64_t kMaxNameLength = 1 << 12;

class Parser {
 public:
  Parser(absl::string_view bytes, absl::string_view shown)
      : bytes_(bytes), shown_(shown) {}

  absl::StatusOr<ElfFile> Parse() {
    WEFT_RETURN_IF_ERROR(ReadHeaders());
    WEFT_RETURN_IF_ERROR(ReadNotes());
    WEFT_RETURN_IF_ERROR(ReadDynamic());
    WEFT_RETURN_IF_ERROR(ReadExports());
    return std::move(file_);
  }

 private:
  absl::Status Broken(absl::string_view what) const {
    return MakeError(ErrorCode::kPluginBroken,
                     absl::StrCat(shown_, ": ", what));
  }

  // The T at `offset` of the file; false beyond the end.
  template <typename T>
  bool Read(uint64_t offset, T* out) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) {
      return false;
    }
    std::memcpy(out, bytes_.data() + offset, sizeof(T));
    return true;
  }

  // The T at virtual address `address`, from the segment that holds it.
  template <typename T>
  bool ReadAt(uint64_t address, T* out) const {
    for (const Elf64_Phdr& p : segments_) {
      if (p.p_type != PT_LOAD || address < p.p_vaddr) continue;
      const uint64_t inside = address - p.p_vaddr;
      if (inside >= p.p_filesz || sizeof(T) > p.p_filesz - inside) continue;
      if (p.p_offset > bytes_.size()) return false;
      return Read(p.p_offset + inside, out);
    }
    return false;
  }

  bool ReadName(uint64_t address, std::string* out) const {
    out->clear();
    char c;
    while (out->size() < kMaxNameLength && ReadAt(address + out->size(), &c)) {
      if (c == '\0') return true;
      out->push_back(c);
    }
    return false;
  }

  absl::Status ReadHeaders() {
    Elf64_Ehdr header;
    if (!Read(0, &header)) return Broken("too short for an ELF file");
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
      return Broken("not an ELF file");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != kMachine) {
      return Broken(absl::StrCat("made for another machine (ELF number ",
                                 header.e_machine, ", here ", kMachine, ")"));
    }
    if (header.e_type != ET_DYN) return Broken("not a shared object");
    if (header.e_phentsize != sizeof(Elf64_Phdr)) {
      return Broken("program headers of an unknown size");
    }
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr p;
      if (header.e_phoff > bytes_.size() ||
          !Read(header.e_phoff + i * sizeof(p), &p)) {
        return Broken("truncated: program headers beyond the end");
      }
      if (p.p_offset > bytes_.size() ||
          p.p_filesz > bytes_.size() - p.p_offset) {
        return Broken(absl::StrCat("truncated: a segment ends at byte ",
                                   p.p_offset + p.p_filesz, " of ",
                                   bytes_.size()));
      }
      segments_.push_back(p);
    }
    // The linker puts the section headers last, so a copy that stopped early
    // shows here even where all segments are whole.
    if (header.e_shoff != 0 && (header.e_shoff > bytes_.size() ||
                                uint64_t{header.e_shnum} * header.e_shentsize >
                                    bytes_.size() - header.e_shoff)) {
      return Broken("truncated: section headers beyond the end");
    }
    return absl::OkStatus();
  }

  absl::Status ReadNotes() {
    for (const Elf64_Phdr& p : segments_) {
      if (p.p_type != PT_NOTE) continue;
      const uint64_t align = p.p_align == 8 ? 8 : 4;
      uint64_t at = 0;
      Elf64_Nhdr note;
      while (at + sizeof(note) <= p.p_filesz && Read(p.p_offset + at, &note)) {
        const uint64_t name = at + sizeof(note);
        const uint64_t desc = AlignUp(name + note.n_namesz, align);
        const uint64_t end = AlignUp(desc + note.n_descsz, align);
        if (end < at || desc + note.n_descsz > p.p_filesz) {
          return Broken("a note runs out of its segment");
        }
        WEFT_RETURN_IF_ERROR(
            TakeNote(note, p.p_offset + name, p.p_offset + desc));
        at = end;
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeNote(const Elf64_Nhdr& note, uint64_t name, uint64_t desc) {
    char owner[5];
    if (note.n_type != 1 || note.n_namesz != sizeof(owner) ||
        !Read(name, &owner) || std::memcmp(owner, "WEFT", 5) != 0) {
      return absl::OkStatus();
    }
    if (file_.note.has_value()) return Broken("two WEFT notes");
    weft_note found;
    if (note.n_descsz < sizeof(found) || !Read(desc, &found)) {
      return Broken("the WEFT note is too short");
    }
    file_.note = found;
    return absl::OkStatus();
  }

  absl::Status ReadDynamic() {
    for (const Elf64_Phdr& p : segments_) {
      if (p.p_type != PT_DYNAMIC) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= p.p_filesz;
           at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        if (!Read(p.p_offset + at, &entry) || entry.d_tag == DT_NULL) break;
        dynamic_.push_back(entry);
      }
    }
    if (dynamic_.empty()) return Broken("no dynamic section");
    uint64_t strings = 0;
    if (!Find(DT_STRTAB, &strings)) return Broken("no string table");
    strings_ = strings;
    for (const Elf64_Dyn& entry : dynamic_) {
      std::string name;
      if (entry.d_tag != DT_SONAME && entry.d_tag != DT_NEEDED) continue;
      if (!ReadName(strings_ + entry.d_un.d_val, &name)) {
        return Broken("a name of the dynamic section cannot be read");
      }
      if (entry.d_tag == DT_SONAME) {
        file_.soname = name;
      } else {
        file_.needed.push_back(name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadExports() {
    uint64_t symbols = 0;
    if (!Find(DT_SYMTAB, &symbols)) return Broken("no symbol table");
    WEFT_ASSIGN_OR_RETURN(const uint64_t count, SymbolCount());
    for (uint64_t i = 1; i < count; ++i) {
      Elf64_Sym symbol;
      if (!ReadAt(symbols + i * sizeof(symbol), &symbol)) {
        return Broken("symbols beyond the end of their segment");
      }
      const int bind = ELF64_ST_BIND(symbol.st_info);
      const int visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx == SHN_UNDEF || bind == STB_LOCAL ||
          visibility == STV_HIDDEN || visibility == STV_INTERNAL) {
        continue;
      }
      std::string name;
      if (!ReadName(strings_ + symbol.st_name, &name)) {
        return Broken("a symbol's name cannot be read");
      }
      file_.exports.push_back(std::move(name));
    }
    std::sort(file_.exports.begin(), file_.exports.end());
    return absl::OkStatus();
  }

  // The dynamic section does not say how many symbols there are; the hash
  // tables do.
  absl::StatusOr<uint64_t> SymbolCount() const {
    uint64_t table = 0;
    if (Find(DT_HASH, &table)) {
      uint32_t head[2];  // buckets, chains: one chain entry per symbol
      if (!ReadAt(table, &head) || head[1] > kMaxSymbols) {
        return Broken("the hash table cannot be read");
      }
      return head[1];
    }
    if (!Find(DT_GNU_HASH, &table)) return Broken("no hash table");
    uint32_t head[4];  // buckets, first hashed symbol, bloom words, shift
    if (!ReadAt(table, &head) || head[0] > kMaxSymbols ||
        head[1] > kMaxSymbols || head[2] > kMaxSymbols) {
      return Broken("the hash table cannot be read");
    }
    const uint64_t buckets = table + sizeof(head) + 8 * uint64_t{head[2]};
    const uint64_t chains = buckets + 4 * uint64_t{head[0]};
    uint32_t last = 0;
    for (uint64_t i = 0; i < head[0]; ++i) {
      uint32_t first;
      if (!ReadAt(buckets + 4 * i, &first)) {
        return Broken("the hash table cannot be read");
      }
      last = std::max(last, first);
    }
    if (last < head[1]) return uint64_t{head[1]};  // nothing is exported
    // The last chain ends at the first odd value.
    for (uint64_t i = last; i < kMaxSymbols; ++i) {
      uint32_t hash;
      if (!ReadAt(chains + 4 * (i - head[1]), &hash)) break;
      if ((hash & 1) != 0) return i + 1;
    }
    return Broken("the hash table does not end");
  }

  bool Find(int64_t tag, uint64_t* value) const {
    for (const Elf64_Dyn& entry : dynamic_) {
      if (entry.d_tag == tag) {
        *value = entry.d_un.d_val;
        return true;
      }
    }
    return false;
  }

  const absl::string_view bytes_;
  const absl::string_view shown_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
  uint64_t strings_ = 0;
  ElfFile file_;
};

}  // namespace

absl::StatusOr<ElfFile> ParseElf(absl::string_view bytes,
                                 absl::string_view shown) {
  return Parser(bytes, shown).Parse();
}

}  // namespace weft
