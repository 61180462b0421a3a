// Measures what llama-batched-bench measures, with llama.h alone: N prompts decoded one after the
// other, then N answers in lockstep.
//
// The crate from which ragwire takes llama.cpp does not contain llama.cpp's own tool, so this
// program does the same work with the libraries that ragwire runs on. It loads a model once and
// then measures one case per line of stdin, so that `benches/engine` can alternate with it:
//
//   CELLS CHOICE PROMPT ANSWER SEQUENCES      own|shared  none|greedy  tokens  tokens  number of sequences
//   -> SECONDS SECONDS SECONDS                of the prompts, of the answers, of the CPU for both
//
// When it is ready it prints `ready` and the devices that llama.cpp found.
//
// `own none` does what llama-batched-bench does: separate cells for each sequence, and the logits
// are not read. `shared greedy` is the least that ragwire's engine has to do: shared cells, so that
// prefixes are shared, and a token chosen from each row of logits.
//
// It handles tokens only, not text, and does not depend on ragwire.

#include "ggml-backend.h"
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Options {
    std::string model;
    uint32_t    cells     = 0;
    uint32_t    sequences = 1;
    uint32_t    step      = 512;
    int32_t     gpu_layers = 0;
    int32_t     threads   = 1;
};

[[noreturn]] void fail(const char * what) {
    std::fprintf(stderr, "lockstep: %s\n", what);
    std::exit(1);
}

Options read(int argc, char ** argv) {
    Options options;
    for (int at = 1; at < argc; at += 2) {
        const std::string name = argv[at];
        if (at + 1 == argc) {
            fail("option without a value");
        }
        const char * value = argv[at + 1];
        if (name == "--model") {
            options.model = value;
        } else if (name == "--cells") {
            options.cells = std::strtoul(value, nullptr, 10);
        } else if (name == "--sequences") {
            options.sequences = std::strtoul(value, nullptr, 10);
        } else if (name == "--step") {
            options.step = std::strtoul(value, nullptr, 10);
        } else if (name == "--gpu-layers") {
            options.gpu_layers = std::atoi(value);
        } else if (name == "--threads") {
            options.threads = std::atoi(value);
        } else {
            fail("options: --model FILE --cells N [--sequences N] [--step N] [--gpu-layers N] [--threads N]");
        }
    }
    if (options.model.empty() || options.cells == 0 || options.sequences == 0 || options.step < options.sequences) {
        fail("--model, --cells and a --step of at least one token per sequence are required");
    }
    return options;
}

template <auto Free> struct Freed {
    template <typename T> void operator()(T * value) const { Free(value); }
};
using Model   = std::unique_ptr<llama_model, Freed<llama_model_free>>;
using Context = std::unique_ptr<llama_context, Freed<llama_free>>;
using Sampler = std::unique_ptr<llama_sampler, Freed<llama_sampler_free>>;

Context make_context(llama_model * model, const Options & options, bool shared) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx           = options.cells;
    params.n_batch         = options.step;
    params.n_ubatch        = std::min<uint32_t>(options.step, 512);
    params.n_seq_max       = options.sequences;
    params.kv_unified      = shared;
    params.n_threads       = options.threads;
    params.n_threads_batch = options.threads;
    params.no_perf         = true;
    Context context(llama_init_from_model(model, params));
    if (!context) {
        fail("cannot create the context");
    }
    return context;
}

// Feeds tokens to the model, in batches of at most `step`.
class Feed {
  public:
    Feed(llama_context * context, uint32_t step)
        : context(context), step(step), batch(llama_batch_init((int32_t) step, 0, 1)) {}
    ~Feed() { llama_batch_free(batch); }
    Feed(const Feed &) = delete;
    Feed & operator=(const Feed &) = delete;

    void add(llama_token token, llama_pos position, llama_seq_id sequence, bool logits) {
        const int32_t at = batch.n_tokens++;
        batch.token[at]     = token;
        batch.pos[at]       = position;
        batch.n_seq_id[at]  = 1;
        batch.seq_id[at][0] = sequence;
        batch.logits[at]    = logits;
        if ((uint32_t) batch.n_tokens == step) {
            decode();
        }
    }

    // Decodes the current batch and waits until it is finished.
    void decode() {
        if (batch.n_tokens > 0 && llama_decode(context, batch) != 0) {
            fail("cannot decode a batch");
        }
        llama_synchronize(context);
        batch.n_tokens = 0;
    }

  private:
    llama_context * context;
    uint32_t        step;
    llama_batch     batch;
};

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of all threads of this process.
double cpu_seconds() {
    return (double) std::clock() / CLOCKS_PER_SEC;
}

struct Measured {
    double prompts;
    double answers;
    double cpu;
};

Measured measure(llama_context * context, const Options & options, bool greedy, int prompt, int answer, int sequences) {
    const llama_vocab * vocab = llama_model_get_vocab(llama_get_model(context));
    // Any token: a dense model takes the same time for all.
    const auto some = [size = llama_vocab_n_tokens(vocab), next = 1u]() mutable {
        next = next * 1664525u + 1013904223u;
        return (llama_token) (next % (uint32_t) size);
    };
    auto tokens = some;
    Sampler sampler(greedy ? llama_sampler_init_greedy() : nullptr);
    Feed    feed(context, options.step);

    const double used  = cpu_seconds();
    const double began = seconds();
    llama_memory_clear(llama_get_memory(context), false);
    for (int sequence = 0; sequence < sequences; ++sequence) {
        for (int position = 0; position < prompt; ++position) {
            feed.add(tokens(), position, sequence, false);
        }
    }
    feed.decode();
    const double fed = seconds();

    std::vector<llama_token> last(sequences);
    std::generate(last.begin(), last.end(), tokens);
    for (int position = prompt; position < prompt + answer; ++position) {
        for (int sequence = 0; sequence < sequences; ++sequence) {
            feed.add(last[sequence], position, sequence, true);
        }
        feed.decode();
        for (int sequence = 0; greedy && sequence < sequences; ++sequence) {
            last[sequence] = llama_sampler_sample(sampler.get(), context, sequence);
        }
    }
    return { fed - began, seconds() - fed, cpu_seconds() - used };
}

// Prints warnings and errors only.
void log(ggml_log_level level, const char * text, void *) {
    if (level >= GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_CONT) {
        std::fputs(text, stderr);
    }
}

} // namespace

int main(int argc, char ** argv) {
    const Options options = read(argc, argv);
    llama_log_set(log, nullptr);
    ggml_backend_load_all();
    llama_backend_init();

    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = options.gpu_layers;
    Model model(llama_model_load_from_file(options.model.c_str(), params));
    if (!model) {
        fail("cannot load the model");
    }
    const Context own    = make_context(model.get(), options, false);
    const Context shared = make_context(model.get(), options, true);
    for (llama_context * context : { own.get(), shared.get() }) {
        measure(context, options, false, 16, 2, 1);
    }
    std::printf("ready");
    for (size_t device = 0; device < ggml_backend_dev_count(); ++device) {
        std::printf("%s %s", device ? "," : "", ggml_backend_dev_description(ggml_backend_dev_get(device)));
    }
    std::printf("\n");
    std::fflush(stdout);

    char cells[8], choice[8];
    int  prompt, answer, sequences;
    while (std::scanf("%7s %7s %d %d %d", cells, choice, &prompt, &answer, &sequences) == 5) {
        const bool is_shared = std::strcmp(cells, "shared") == 0;
        const bool is_greedy = std::strcmp(choice, "greedy") == 0;
        const bool is_known  = (is_shared || std::strcmp(cells, "own") == 0) && (is_greedy || std::strcmp(choice, "none") == 0);
        // With separate cells, each sequence has an equal share of them.
        const int64_t room = is_shared ? (int64_t) options.cells : (int64_t) (options.cells / options.sequences) * sequences;
        if (!is_known || prompt < 1 || answer < 1 || sequences < 1 || (uint32_t) sequences > options.sequences ||
            (int64_t) sequences * (prompt + answer) > room) {
            fail("malformed line");
        }
        llama_context * context = (is_shared ? shared : own).get();
        const Measured measured = measure(context, options, is_greedy, prompt, answer, sequences);
        std::printf("%.6f %.6f %.6f\n", measured.prompts, measured.answers, measured.cpu);
        std::fflush(stdout);
    }
    llama_backend_free();
    return 0;
}
