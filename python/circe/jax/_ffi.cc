// The losses as custom calls of XLA, on the CPU and on NVIDIA GPUs.
//
// A plan is what a loss computes: its kernels, its options, and the fitted objects of the Python side that it borrows. XLA's
// programs name a plan by its number, and hand over buffers: x (n, d), then y and z, or the row numbers of a batch, and then, on
// the CPU, perhaps the weights of the rows (n) as float64. Results are the value, one float64, and where it is asked for the gradient, shaped as x.
//
// Built by _ffi.py against the installed jaxlib's headers and circe's. libcirce itself is opened at run time, where Python has
// loaded it. Calls come from XLA's own threads, without Python: one lock lets them in one by one, for they share a context.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "circe/circe.h"
#include "circe/cuda.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// ---- libcirce ----------------------------------------------------------------------------------------------------------

#define FUNCTIONS(X)                                                                                                          \
    X(circe_last_error) X(circe_context_options_init)                                                                                                       \
    X(circe_context_create) X(circe_context_destroy) X(circe_workspace_create) X(circe_workspace_destroy)                     \
    X(circe_workspace_set_weights)                                                                                            \
    X(circe_kernel_parse) X(circe_kernel_destroy) X(circe_kernel_copy) X(circe_kernel_n_free) X(circe_kernel_n_factors) X(circe_kernel_bind) X(circe_kernel_bind_median) X(circe_cme_kernel_y) X(circe_batch_options_init) X(circe_gcm_options_init) \
    X(circe_measure_circe) X(circe_measure_circe_cached) X(circe_measure_hsic) X(circe_measure_hscic)                         \
    X(circe_measure_hscic_holdout) X(circe_measure_gcm)                                                                       \
    X(circe_cuda_open) X(circe_cuda_close) X(circe_cuda_scale_bytes) X(circe_cuda_scale) X(circe_cuda_scale_gradient)         \
    X(circe_cuda_measure_circe) X(circe_cuda_measure_hsic)                             \
    X(circe_cuda_measure_hscic) X(circe_cuda_measure_hscic_holdout) X(circe_cuda_measure_gcm)                                 \
    X(circe_cuda_model_create) X(circe_cuda_model_destroy) X(circe_cuda_model_columns) X(circe_cuda_residual_features)        \
    X(circe_cuda_features_create) X(circe_cuda_features_destroy) X(circe_cuda_features_get)

struct Library {
#define MEMBER(name) decltype(&::name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

Library circe;
std::mutex one;  // call at a time
circe_context *context = nullptr;
circe_workspace *workspace = nullptr;

template <typename Object>
struct Destroy {
    void (**destroy)(Object *);
    void operator()(Object *object) const { (*destroy)(object); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, Destroy<Object>>;
template <typename Object>
Owned<Object> owned(Object *object, void (**destroy)(Object *)) {
    return Owned<Object>(object, Destroy<Object>{destroy});
}

// ---- plans -------------------------------------------------------------------------------------------------------------

enum Kind { CIRCE = 0, HSIC = 1, HSCIC = 2, GCM = 3 };  // as _plans.py numbers them

struct Plan {
    Kind kind;
    int form;
    Owned<circe_kernel> x, y, z;
    Owned<circe_kernel> x_of_width_1;  // where the width of x is to be chosen; otherwise x as it is
    const circe_cme *mean;
    const circe_features *features;
    circe_batch_options batch;
    circe_gcm_options gcm;
    std::map<circe_cuda *, Owned<circe_cuda_model>> models;  // on devices, made at the first call there
    std::map<circe_cuda *, Owned<circe_cuda_features>> copies;
    bool follows() const { return x != nullptr && circe.circe_kernel_n_free(x.get()) > 0; }
};

auto &plans = *new std::map<std::int64_t, std::unique_ptr<Plan>>;  // never destroyed: XLA's threads may outlive main()
std::int64_t last_plan = 0;

ffi::Error failure(circe_status status) {
    auto code = status == CIRCE_ERR_MEMORY        ? ffi::ErrorCode::kResourceExhausted
                : status == CIRCE_ERR_UNSUPPORTED ? ffi::ErrorCode::kUnimplemented
                                                  : ffi::ErrorCode::kInvalidArgument;
    return status == CIRCE_OK ? ffi::Error::Success() : ffi::Error(code, std::string("circe: ") + circe.circe_last_error());
}

Plan *find(std::int64_t number) {
    auto found = plans.find(number);
    return found == plans.end() ? nullptr : found->second.get();
}

ffi::Error gone() {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "circe: the ConditionalMean of this compiled function is gone; trace it again with the one in use");
}

// ---- buffers -----------------------------------------------------------------------------------------------------------

template <typename Buffer>
circe_mat view(Buffer &&buffer) {
    auto shape = buffer.dimensions();
    std::int64_t rows = shape.size() > 0 ? shape[0] : 1, cols = shape.size() > 1 ? shape[1] : 1;
    circe_mat mat = {};
    mat.data = buffer.untyped_data();
    mat.rows = rows, mat.cols = cols, mat.ld = cols;
    mat.dtype = buffer.element_type() == ffi::DataType::F64 ? CIRCE_FLOAT64 : CIRCE_FLOAT32;
    return mat;
}

struct Results {
    double *value;
    circe_mat grad;
};

Results results_of(ffi::RemainingRets &results) {
    Results found = {};
    found.value = static_cast<double *>((*results.get<ffi::AnyBuffer>(0))->untyped_data());
    if (results.size() > 1) found.grad = view(**results.get<ffi::AnyBuffer>(1));
    return found;
}

// ---- on the CPU --------------------------------------------------------------------------------------------------------

// The kernel of x: where its width is still to be chosen, with the median heuristic of this batch.
circe_status kernel_of_batch(const Plan &p, const circe_mat &x, Owned<circe_kernel> *own, const circe_kernel **kernel) {
    circe_kernel *copy = nullptr;
    *kernel = p.x.get();
    if (p.x == nullptr || circe.circe_kernel_n_free(p.x.get()) == 0) return CIRCE_OK;
    circe_status status = circe.circe_kernel_copy(p.x.get(), &copy);
    *own = owned(copy, &circe.circe_kernel_destroy);
    *kernel = copy;
    return status == CIRCE_OK ? circe.circe_kernel_bind_median(copy, &x) : status;
}

circe_status on_cpu(const Plan &p, const circe_mat &x, const circe_mat &y, const circe_mat &z, double *value, circe_mat *grad) {
    Owned<circe_kernel> own(nullptr, Destroy<circe_kernel>{&circe.circe_kernel_destroy});
    const circe_kernel *kernel = nullptr;
    circe_status status = kernel_of_batch(p, x, &own, &kernel);
    if (status != CIRCE_OK) return status;
    circe_kernels kernels = {kernel, p.y.get(), p.z.get()};
    switch (p.kind) {
    case CIRCE:
        return circe.circe_measure_circe(workspace, p.mean, kernel, &x, &y, &z, static_cast<circe_estimator>(p.form), value, grad);
    case HSIC:
        return circe.circe_measure_hsic(workspace, &kernels, &x, &z, static_cast<circe_hsic_estimator>(p.form), value, grad);
    case HSCIC:
        if (p.mean != nullptr)
            return circe.circe_measure_hscic_holdout(workspace, p.mean, kernel, &x, &y, &z, &p.batch, value, grad);
        return circe.circe_measure_hscic(workspace, &kernels, &x, &y, &z, &p.batch, value, grad);
    case GCM:
        return circe.circe_measure_gcm(workspace, p.y.get(), &x, &y, &z, &p.gcm, value, grad);
    }
    return CIRCE_ERR_ARGUMENT;
}

// The weights of the rows of one call, where there are any.
class Weights {
  public:
    explicit Weights(ffi::RemainingArgs &more) {
        if (more.size() == 0) return;
        auto buffer = *more.get<ffi::AnyBuffer>(0);
        std::int64_t n = view(buffer).rows, positive = 0, zero = 0;
        const double *weights = static_cast<const double *>(buffer.untyped_data());
        for (std::int64_t i = 0; i < n; i++) {
            positive += weights[i] > 0.0;
            zero += weights[i] == 0.0;
        }
        nothing = positive < 4;  // what the estimators need
        if (zero < n) status = circe.circe_workspace_set_weights(workspace, weights, n);
    }
    ~Weights() { circe.circe_workspace_set_weights(workspace, nullptr, 0); }
    circe_status status = CIRCE_OK;
    bool nothing = false;  // too few rows count: the loss is 0
};

void nothing(Results &out, bool with_grad) {
    *out.value = 0.0;
    if (!with_grad) return;
    size_t size = out.grad.dtype == CIRCE_FLOAT64 ? 8 : 4;
    std::memset(out.grad.data, 0, static_cast<size_t>(out.grad.rows * out.grad.cols) * size);
}

// What calls on the CPU have in common; `measure` is (plan, value, gradient or nullptr) -> status.
template <typename Measure>
ffi::Error with_plan(std::int64_t number, ffi::RemainingArgs &more, ffi::RemainingRets &results, Measure measure) {
    std::lock_guard<std::mutex> guard(one);
    Plan *plan = find(number);
    if (plan == nullptr) return gone();
    Results out = results_of(results);
    Weights weights(more);
    if (weights.status != CIRCE_OK) return failure(weights.status);
    if (weights.nothing) return nothing(out, results.size() > 1), ffi::Error::Success();
    return failure(measure(*plan, out.value, results.size() > 1 ? &out.grad : nullptr));
}

ffi::Error points(std::int64_t number, ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::AnyBuffer z, ffi::RemainingArgs more,
                  ffi::RemainingRets results) {
    return with_plan(number, more, results, [&](const Plan &p, double *value, circe_mat *grad) {
        return on_cpu(p, view(x), view(y), view(z), value, grad);
    });
}

ffi::Error rows(std::int64_t number, ffi::AnyBuffer x, ffi::Buffer<ffi::S64> index, ffi::RemainingArgs more,
                ffi::RemainingRets results) {
    return with_plan(number, more, results, [&](const Plan &p, double *value, circe_mat *grad) {
        circe_mat at = view(x);
        Owned<circe_kernel> own(nullptr, Destroy<circe_kernel>{&circe.circe_kernel_destroy});
        const circe_kernel *kernel = nullptr;
        circe_status status = kernel_of_batch(p, at, &own, &kernel);
        if (status != CIRCE_OK) return status;
        return circe.circe_measure_circe_cached(workspace, p.mean, p.features, index.typed_data(), at.rows, kernel, &at,
                                                static_cast<circe_estimator>(p.form), value, grad);
    });
}

// ---- on a GPU: everything is queued on XLA's stream --------------------------------------------------------------------

auto &streams = *new std::map<std::pair<int, void *>, Owned<circe_cuda>>;

circe_status stream_of(int device, void *stream, circe_cuda **cuda) {
    auto found = streams.find({device, stream});
    if (found == streams.end()) {
        circe_status status = circe.circe_cuda_open(context, device, stream, cuda);
        if (status != CIRCE_OK) return status;
        found = streams.emplace(std::make_pair(device, stream), owned(*cuda, &circe.circe_cuda_close)).first;
    }
    *cuda = found->second.get();
    return CIRCE_OK;
}

// n zeros of float64 in XLA's scratch memory. The driver is in the process, whoever linked CUDA's runtime.
double *zeros(ffi::ScratchAllocator &scratch, size_t n, void *stream) {
    using Set = int (*)(std::uintptr_t, unsigned, size_t, void *);
    static const Set set = [] {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        return driver != nullptr ? reinterpret_cast<Set>(dlsym(driver, "cuMemsetD32Async")) : nullptr;
    }();
    std::optional<void *> block = scratch.Allocate(n * sizeof(double));
    bool cleared = set != nullptr && block.has_value() && set(reinterpret_cast<std::uintptr_t>(*block), 0, 2 * n, stream) == 0;
    return cleared ? static_cast<double *>(*block) : nullptr;
}

// x over the width of its kernel, where that follows the batch (circe/scaling.h); otherwise x itself.
struct Scaled {
    circe_mat x = {};
    double *widths = nullptr;  // nullptr: x itself
    void *scratch = nullptr;
    circe_scaling how = {CIRCE_NORMALIZE_NONE, 0.0, 0};
};

circe_status scale(const Plan &p, circe_cuda *cuda, void *stream, const circe_mat &x, ffi::ScratchAllocator &scratch, Scaled *out) {
    out->x = x;
    if (!p.follows()) return CIRCE_OK;
    std::optional<void *> block = scratch.Allocate(static_cast<size_t>(x.rows * x.cols) * (x.dtype == CIRCE_FLOAT64 ? 8 : 4));
    std::optional<void *> more = scratch.Allocate(circe.circe_cuda_scale_bytes(x.rows, x.cols));
    out->widths = zeros(scratch, static_cast<size_t>(circe.circe_kernel_n_factors(p.x.get())), stream);
    if (!block.has_value() || !more.has_value() || out->widths == nullptr) return CIRCE_ERR_MEMORY;
    out->x.data = *block;
    out->scratch = *more;
    return circe.circe_cuda_scale(cuda, p.x.get(), &out->how, &x, out->widths, nullptr, out->scratch, &out->x);
}

circe_status scale_back(const Plan &p, circe_cuda *cuda, const circe_mat &x, Scaled &scaled, circe_mat *grad) {
    if (scaled.widths == nullptr || grad == nullptr) return CIRCE_OK;
    return circe.circe_cuda_scale_gradient(cuda, p.x.get(), &scaled.how, &x, scaled.widths, scaled.scratch, grad);
}

// zeta (n, columns) of the points, in XLA's scratch memory.
circe_status residuals(Plan &p, circe_cuda *cuda, const circe_mat &y, const circe_mat &z, ffi::ScratchAllocator &scratch, circe_mat *zeta) {
    auto found = p.models.find(cuda);
    if (found == p.models.end()) {
        circe_cuda_model *made = nullptr;
        circe_status status = circe.circe_cuda_model_create(cuda, p.mean, &made);
        if (status != CIRCE_OK) return status;
        found = p.models.emplace(cuda, owned(made, &circe.circe_cuda_model_destroy)).first;
    }
    *zeta = y;
    zeta->cols = zeta->ld = circe.circe_cuda_model_columns(found->second.get());
    size_t bytes = static_cast<size_t>(zeta->rows * zeta->cols) * (y.dtype == CIRCE_FLOAT64 ? 8 : 4);
    std::optional<void *> block = scratch.Allocate(bytes);
    if (!block.has_value()) return CIRCE_ERR_MEMORY;
    zeta->data = *block;
    return circe.circe_cuda_residual_features(cuda, found->second.get(), &y, &z, zeta, nullptr);
}

circe_status on_gpu(Plan &p, circe_cuda *cuda, const circe_mat &x, const circe_mat &y, const circe_mat &z, ffi::ScratchAllocator &scratch,
                    double *value, circe_mat *grad) {
    const circe_kernel *kernel_x = p.x_of_width_1.get();
    circe_kernels kernels = {kernel_x, p.y.get(), p.z.get()};
    circe_mat zeta = {};
    if (p.kind == HSIC)
        return circe.circe_cuda_measure_hsic(cuda, &kernels, &x, &z, static_cast<circe_hsic_estimator>(p.form), value, grad);
    if (p.kind == GCM) return circe.circe_cuda_measure_gcm(cuda, p.y.get(), &x, &y, &z, nullptr, nullptr, &p.gcm, value, grad);
    if (p.mean == nullptr) return circe.circe_cuda_measure_hscic(cuda, &kernels, &x, &y, &z, nullptr, &p.batch, value, grad);
    const circe_kernel *kernel_y = circe.circe_cme_kernel_y(p.mean);
    circe_status status = residuals(p, cuda, y, z, scratch, &zeta);
    if (status != CIRCE_OK) return status;
    if (p.kind == HSCIC)
        return circe.circe_cuda_measure_hscic_holdout(cuda, kernel_y, &y, &zeta, nullptr, kernel_x, &x, &p.batch, value, grad);
    return circe.circe_cuda_measure_circe(cuda, kernel_y, &y, &zeta, nullptr, x.rows, kernel_x, &x, static_cast<circe_estimator>(p.form),
                                          value, grad);
}

// What calls on a GPU have in common; `measure` is (plan, device, x as its kernel sees it, value, gradient or nullptr) -> status.
template <typename Measure>
ffi::Error with_plan_on(void *stream, std::int32_t device, ffi::ScratchAllocator &scratch, std::int64_t number, const circe_mat &x,
                        ffi::RemainingArgs &more, ffi::RemainingRets &results, Measure measure) {
    if (more.size() > 0)
        return ffi::Error(ffi::ErrorCode::kUnimplemented, "circe: a loss on a GPU takes no weights of rows; leave them out");
    std::lock_guard<std::mutex> guard(one);
    Plan *plan = find(number);
    circe_cuda *cuda = nullptr;
    if (plan == nullptr) return gone();
    Results out = results_of(results);
    Scaled scaled;
    circe_mat *grad = results.size() > 1 ? &out.grad : nullptr;
    circe_status status = stream_of(device, stream, &cuda);
    if (status == CIRCE_OK) status = scale(*plan, cuda, stream, x, scratch, &scaled);
    if (status == CIRCE_OK) status = measure(*plan, cuda, scaled.x, out.value, grad);
    if (status == CIRCE_OK) status = scale_back(*plan, cuda, x, scaled, grad);
    return failure(status);
}

ffi::Error points_cuda(void *stream, std::int32_t device, ffi::ScratchAllocator scratch, std::int64_t number, ffi::AnyBuffer x,
                       ffi::AnyBuffer y, ffi::AnyBuffer z, ffi::RemainingArgs more, ffi::RemainingRets results) {
    return with_plan_on(stream, device, scratch, number, view(x), more, results,
                        [&](Plan &p, circe_cuda *cuda, const circe_mat &seen, double *value, circe_mat *grad) {
                            return on_gpu(p, cuda, seen, view(y), view(z), scratch, value, grad);
                        });
}

// y and zeta of the whole data set, on the device.
circe_status features_on(Plan &p, circe_cuda *cuda, circe_mat *y, circe_mat *zeta) {
    auto found = p.copies.find(cuda);
    if (found == p.copies.end()) {
        circe_cuda_features *made = nullptr;
        circe_status status = circe.circe_cuda_features_create(cuda, p.features, &made);
        if (status != CIRCE_OK) return status;
        found = p.copies.emplace(cuda, owned(made, &circe.circe_cuda_features_destroy)).first;
    }
    return circe.circe_cuda_features_get(found->second.get(), y, zeta);
}

ffi::Error rows_cuda(void *stream, std::int32_t device, ffi::ScratchAllocator scratch, std::int64_t number, ffi::AnyBuffer x,
                     ffi::Buffer<ffi::S64> index, ffi::RemainingArgs more, ffi::RemainingRets results) {
    return with_plan_on(stream, device, scratch, number, view(x), more, results,
                        [&](Plan &p, circe_cuda *cuda, const circe_mat &seen, double *value, circe_mat *grad) {
                            circe_mat y = {}, zeta = {};
                            circe_status status = features_on(p, cuda, &y, &zeta);
                            if (status != CIRCE_OK) return status;
                            return circe.circe_cuda_measure_circe(cuda, circe.circe_cme_kernel_y(p.mean), &y, &zeta,
                                                                  index.typed_data(), seen.rows, p.x_of_width_1.get(), &seen,
                                                                  static_cast<circe_estimator>(p.form), value, grad);
                        });
}

circe_status parse(const char *text, Owned<circe_kernel> *kernel) {
    circe_kernel *made = nullptr;
    circe_status status = text != nullptr ? circe.circe_kernel_parse(context, text, &made) : CIRCE_OK;
    *kernel = owned(made, &circe.circe_kernel_destroy);
    return status;
}

}  // namespace

// ---- what Python calls -------------------------------------------------------------------------------------------------

// NULL, or what is wrong.
extern "C" const char *circe_jax_open(const char *path, int threads) {
    static std::string text;
    std::lock_guard<std::mutex> guard(one);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return (text = dlerror()).c_str();
#define FIND(name)                                                                  \
    circe.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));        \
    if (circe.name == nullptr) return (text = std::string("no ") + #name).c_str();
    FUNCTIONS(FIND)
#undef FIND
    circe_context_options options;
    circe.circe_context_options_init(&options);
    options.threads = threads;
    if (circe.circe_context_create(&options, &context) != CIRCE_OK) return (text = circe.circe_last_error()).c_str();
    if (circe.circe_workspace_create(context, &workspace) != CIRCE_OK) return (text = circe.circe_last_error()).c_str();
    return nullptr;
}

// Its number; 0: the library refuses it. Kernels are texts, with every width but perhaps those of x; NULL: none.
extern "C" std::int64_t circe_jax_plan(int kind, int form, const char *x, const char *y, const char *z, const circe_cme *mean,
                                       const circe_features *features, double ridge, int regression, int combine, double sharpness) {
    std::lock_guard<std::mutex> guard(one);
    auto plan = std::make_unique<Plan>();
    plan->kind = static_cast<Kind>(kind);
    plan->form = form;
    if (parse(x, &plan->x) != CIRCE_OK || parse(y, &plan->y) != CIRCE_OK || parse(z, &plan->z) != CIRCE_OK ||
        parse(x, &plan->x_of_width_1) != CIRCE_OK)
        return 0;
    if (plan->follows() && circe.circe_kernel_bind(plan->x_of_width_1.get(), 1.0) != CIRCE_OK) return 0;
    plan->mean = mean;
    plan->features = features;
    circe.circe_batch_options_init(&plan->batch);
    plan->batch.ridge = ridge;
    circe.circe_gcm_options_init(&plan->gcm);
    plan->gcm.regression = static_cast<circe_gcm_regression>(regression);
    plan->gcm.combine = static_cast<circe_gcm_combine>(combine);
    plan->gcm.sharpness = sharpness;
    plan->gcm.batch = plan->batch;
    plan->gcm.holdout = plan->kind == GCM ? mean : nullptr;
    plans[++last_plan] = std::move(plan);
    return last_plan;
}

extern "C" void circe_jax_forget(std::int64_t number) {
    std::lock_guard<std::mutex> guard(one);
    plans.erase(number);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_points, points,
                              ffi::Ffi::Bind().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_rows, rows,
                              ffi::Ffi::Bind().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>().Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_points_cuda, points_cuda,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>().Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::ScratchAllocator>().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_rows_cuda, rows_cuda,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>().Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::ScratchAllocator>().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs().RemainingRets());
